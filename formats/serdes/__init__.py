"""Serdes that a spec can name, one module each."""
