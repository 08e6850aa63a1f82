"""Records as rows: columns of Arrow, by format and serde."""
