"""Records as rows."""
