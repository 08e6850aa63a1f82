"""Cut-over, rollback, finalize and abandon."""
