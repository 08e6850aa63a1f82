"""State as rows: which ranges of which RocksDB directories are read, and as which columns."""
