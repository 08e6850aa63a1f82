"""Report what a directory holds: systems by file names, stores by column families, never by guesses at bytes."""
