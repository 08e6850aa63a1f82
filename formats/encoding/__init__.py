"""Encodings that several record layouts share."""
