"""Quix Streams itself, with a broker."""
