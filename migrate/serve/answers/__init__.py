"""The answer of each endpoint."""
