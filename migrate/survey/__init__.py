"""What lies in a directory: systems by the names of files, stores by column families; never by a guess at bytes."""
