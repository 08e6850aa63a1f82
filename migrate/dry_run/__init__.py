"""The dry run: changes no file, reports everything, and decides by the same code as a run."""
