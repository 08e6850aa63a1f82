"""Reading, scanning, sampling and writing RocksDB directories: the only callers of rocksdict."""
