"""Stores of RocksDB's own releases, which are older than the RocksDB that writes new stores here."""
