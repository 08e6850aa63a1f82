"""RocksDB directories as bytes: reading, writing, locking. No module here knows a format."""
