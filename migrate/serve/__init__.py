"""The web service over `queries`."""
