"""DRAFT of this worktree, replaced by VIEWS."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, NamedTuple


class KeyValue(NamedTuple):
    key: Any
    value: Any


class ValueAndTimestamp(NamedTuple):
    value: Any
    timestamp: int


class _KV:
    def __init__(self, parts, definition, ts):
        self.parts, self.f, self.ts = parts, definition.stored, ts

    def _v(self, v):
        p, c = self.f.value_layout.unpack(v)
        val = self.f.value_serde.decode(p)
        return ValueAndTimestamp(val, c["timestamp"]) if self.ts else val

    def get(self, key):
        k = self.f.key_serde.encode(key)
        for p in self.parts:
            v = p.opened().segments[0].entries.get(k)
            p.check()
            if v is not None:
                return self._v(v)
        return None

    @contextmanager
    def range(self, a, b, reverse=False):
        def gen():
            for p in self.parts:
                e = self.f.key_serde.encode
                src = (
                    p.opened()
                    .segments[0]
                    .entries.scan(None if a is None else e(a), None if b is None else e(b) + b"\0", reverse=reverse)
                )
                while batch := src.pull(256):
                    p.check()
                    for k, v in batch:
                        yield KeyValue(self.f.key_serde.decode(k), self._v(v))

        yield gen()

    def reverse_range(self, a, b):
        return self.range(a, b, True)

    def all(self):
        return self.range(None, None)


class _T:
    def __init__(self, ts, kind):
        self.ts, self.kind = ts, kind

    def accepts(self, f):
        return f.kind == self.kind

    def view(self, name, parts, definition):
        return _KV(parts, definition, self.ts)


class QueryableStoreTypes:
    key_value = staticmethod(lambda: _T(False, "key-value"))
    timestamped_key_value = staticmethod(lambda: _T(True, "key-value"))
    window = timestamped_window = staticmethod(lambda: _T(False, "window"))
    session = staticmethod(lambda: _T(False, "session"))
    versioned = staticmethod(lambda: _T(False, "versioned"))
