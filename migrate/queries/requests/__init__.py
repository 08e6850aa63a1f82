"""Queries as values (KIP-796): a request, and a result for each partition."""
