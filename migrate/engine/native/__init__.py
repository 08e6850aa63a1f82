"""The native engine: one loop, compiled by numba, over RocksDB's C API."""
