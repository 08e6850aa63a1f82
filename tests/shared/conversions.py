"""Conversion functions that specs of these tests name."""

from dataclasses import replace
from itertools import count

from formats import StateRecord

_CALLS = count()


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


def reverse_order(record: StateRecord) -> StateRecord:
    """Turns the order of keys around."""
    return replace(record, key=bytes(255 - byte for byte in record.key))


def merge_tens(record: StateRecord) -> StateRecord:
    """Maps ten keys to one."""
    return replace(record, key=record.key[:-1])


def first_byte(record: StateRecord) -> StateRecord:
    """Maps all keys that begin alike to one."""
    return replace(record, key=record.key[:1])


def impure(record: StateRecord) -> StateRecord:
    """Gives another result each time."""
    return replace(record, value=b"%d" % next(_CALLS))


def thin_out(record: StateRecord) -> StateRecord | None:
    """Drops some, rejects others, and gives the rest another key, in the same order."""
    if record.key[0] % 3 == 0:
        return None
    if record.key[-1] % 5 == 0:
        raise ValueError("a multiple of five")
    return replace(record, key=b"k" + record.key)
