"""The switch from the old stores to the new ones and back: journal, places, side files, and the verbs that use them."""
