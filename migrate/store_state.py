"""What a store partition was like at one time."""

from __future__ import annotations

from migrate.keyrange import Stored


class StoreState(Stored):
    """A store partition's RocksDB directories at one time."""

    content: str
    """Another one: somebody has written to them."""
    files: str
    """Another one: somebody has opened them for writing, at least."""
    metadata: str = ""
    """Of all files but the SST files; another one: they are opened, and looked at. Empty: of an earlier release."""
