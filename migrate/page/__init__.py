"""Reports as pages: one file of HTML each, without a script, that asks the network for nothing."""
