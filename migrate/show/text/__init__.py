"""Reports as text, one module per kind."""
