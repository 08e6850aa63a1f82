"""The old store: its partitions and segments, its snapshot, a sample of it."""
