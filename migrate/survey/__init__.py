"""Reports on a directory: systems by file names, stores by column families. Formats are never guessed from bytes."""
