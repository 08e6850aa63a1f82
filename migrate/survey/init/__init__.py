"""`stateferry init`: write a spec for a directory."""
