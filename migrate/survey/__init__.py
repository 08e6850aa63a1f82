"""Report the content of a directory: systems by names of files, stores by column families, never by guesses at bytes."""
