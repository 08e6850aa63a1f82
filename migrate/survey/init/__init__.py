"""`stateferry init`: a spec made of what lies in a directory."""
