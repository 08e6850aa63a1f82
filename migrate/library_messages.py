"""What other libraries' messages mean, where nothing but the text says it. tests/test_library_messages.py has each.

RocksDB is 9.8.4 in rocksdict 0.3.29, which raises a bare Exception with the text of the status (util/status.cc).
"""

from __future__ import annotations

import os
import re

_OF_THE_STORAGE = ("Corruption: ", "IO error: ", "Shutdown in progress", "Operation aborted", "Resource busy")
_OTHER_COMPARATOR = re.compile(r"does not match existing comparator (\S+)")
_NO_FAMILY = re.compile(r"Column famil(y|ies) not (found|opened).*\ufffd", re.DOTALL)
_TRANSACTIONS = re.compile(r"TransactionDB|txn tag")
_OTHER_PYTHON = re.compile(r"different version: (\S+) than that in driver:? (\d+\.\d+)")
_NO_PROGRAM = re.compile(r'Cannot run program "([^"]+)"')
_ERROR = re.compile(r"[\w.]*(Error|Exception)\b")
_FILE = re.compile(r"(\d+\.(?:sst|blob))")


def is_storage_error(error: BaseException) -> bool:
    """RocksDB: whether the storage failed, and not the caller."""
    return type(error) is Exception and str(error).startswith(_OF_THE_STORAGE)


def is_damage(reason: str) -> bool:
    """RocksDB: whether it found damaged data."""
    return "Corruption" in reason


def is_not_found(reason: str) -> bool:
    """RocksDB: whether the key has no record, for reads that raise then."""
    return reason.startswith("NotFound")


def is_lock_held(reason: str) -> bool:
    """RocksDB: whether a process, perhaps this one, has the directory open."""
    return "/LOCK: " in reason


def met_too_many_deleted(reason: str) -> bool:
    """RocksDB: whether a seek gave up among deleted records, as it was told to."""
    return "Too many internal keys skipped" in reason


def other_comparator(reason: str) -> str | None:
    """RocksDB: the name of the comparator that a family is ordered by and that is not here."""
    found = _OTHER_COMPARATOR.search(reason)
    return found and found[1]


def is_about_transactions(reason: str) -> bool:
    """RocksDB: whether the write-ahead log has transactions."""
    return _TRANSACTIONS.search(reason) is not None


def has_family_not_utf8(reason: str) -> bool:
    """rocksdict 0.3.29: whether it cannot name a family, in whose name it has replaced bytes that are not UTF-8."""
    return _NO_FAMILY.search(reason) is not None


def missing_file(reason: str) -> str | None:
    """RocksDB: the table or blob file that its manifest names and that is not there."""
    found = _FILE.findall(reason) if "No such file" in reason else None
    return found[-1] if found else None


def is_not_bytes(reason: str) -> bool:
    """rocksdict 0.3.29: whether it was given a key or a value that is not bytes."""
    return "raw mode only support" in reason


def has_errno(reason: str, number: int) -> bool:
    """RocksDB and delta-rs 1.6: whether it ends in the text of this error of the system, which lacks the number."""
    return os.strerror(number) in reason


def is_unknown_property(reason: str) -> bool:
    """librdkafka 2.x: whether it has no such property."""
    return "such configuration property" in reason


def do_not_fit_together(reason: str) -> bool:
    """librdkafka 2.x: whether the properties make no client, though each may be right where others are set."""
    return reason.startswith("Failed to create")


def beginning(reason: str) -> str:
    """py4j 0.10.9: the first line of Spark's that is not part of a stack trace, and its cause where it lacks that."""
    lines = _lines(reason)
    first = next((line for line in lines if not line.startswith(("at ", "An error occurred while calling"))), "")
    first = (first or next(iter(lines), "")).removeprefix(": ")
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return first if not causes or causes[-1] in first else f"{first} ({causes[-1]})"


def other_pythons(reason: str) -> tuple[str, str] | None:
    """PySpark 4: the version of Python that a task met, and that of the driver, where these differ."""
    found = _OTHER_PYTHON.search(reason)
    return found and (found[1], found[2])


def missing_program(reason: str) -> str | None:
    """Java: the program that a process cannot run, such as the Python of Spark's tasks."""
    found = _NO_PROGRAM.search(reason)
    return found and found[1]


def error_of_python(reason: str) -> str:
    """PySpark 4: the line that names the error of a task, else the last one."""
    lines = _lines(reason)
    return next((line for line in reversed(lines) if _ERROR.match(line)), next(reversed(lines), ""))


def _lines(reason: str) -> list[str]:
    return [line.strip() for line in reason.splitlines() if line.strip()]
