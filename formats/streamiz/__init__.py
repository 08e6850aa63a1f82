"""Formats of Streamiz, one module each. No engine was at hand to prove them by: they are taken from its source."""
