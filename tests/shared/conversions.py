"""Conversion functions that specs of these tests name."""

from dataclasses import replace

from formats import StateRecord


def shout(record: StateRecord) -> StateRecord | None:
    """Drops every tenth record and changes the others."""
    if record.key.endswith(b"0"):
        return None
    return replace(record, value=record.value.upper(), timestamp_ms=5)


def picky(record: StateRecord) -> StateRecord:
    """Rejects keys that end in 7."""
    if record.key.endswith(b"7"):
        raise ValueError("no sevens")
    return record


def thin_out(record: StateRecord) -> StateRecord | None:
    """Drops some, rejects others, and gives the rest another key, in the same order."""
    if record.key[0] % 3 == 0:
        return None
    if record.key[-1] % 5 == 0:
        raise ValueError("a multiple of five")
    return replace(record, key=b"k" + record.key)


def in_object(record: StateRecord) -> StateRecord:
    """A number, in JSON, becomes an object that has it."""
    return replace(record, value=b'{"sum":%s}' % record.value)


def in_object_decoded(record: StateRecord) -> StateRecord:
    """The same, of a value that has been decoded."""
    return replace(record, value={"sum": record.value})
