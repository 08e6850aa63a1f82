"""The dry run: touches nothing, reports everything, and decides by the very code that a run uses."""
