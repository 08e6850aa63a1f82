"""What each new RocksDB directory is made of, where to cut it, and a conversion tried on a sample."""
