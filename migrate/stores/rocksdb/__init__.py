"""RocksDB directories: read, scanned, written, sampled. Nothing else calls rocksdict."""
