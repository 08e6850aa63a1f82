"""Range checkpoints: the Delta table, its repair, finished intervals, where a migration stands."""
