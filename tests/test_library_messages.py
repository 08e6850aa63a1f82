"""Each message that `library_messages` decides by, from the library that writes it: what is taken for what.

Those of Spark that need a JVM are in tests/spark: test_doctor.py and test_masters.py.
"""

import errno
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import rocksdict
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable
from pyspark.worker_util import check_python_version
from rocksdict import Options, Rdict, ReadOptions

from migrate import library_messages as messages
from tests.stores.test_unreadable import unpacked
from tests.support import make_store

COMMITTED = "transactions-write_committed-committed"
OPEN = "import sys; from rocksdict import *; Rdict(sys.argv[1], Options(raw_mode=True))"


def _open(path: Path) -> Rdict:
    return Rdict(str(path), Options(raw_mode=True))


def _stored(folder: Path) -> Rdict:
    return _open(make_store(folder / "store", {b"a": b"1"}))


def _damaged(folder: Path) -> object:
    table = next(make_store(folder / "store", {b"a": b"1"}).glob("*.sst"))
    table.write_bytes(b"\xff" * 8 + table.read_bytes()[8:])
    return _open(folder / "store").get(b"a")


def _without_a_table(folder: Path) -> object:
    next(make_store(folder / "store", {b"a": b"1"}).glob("*.sst")).unlink()
    return _open(folder / "store")


def _in_another_process(folder: Path) -> None:
    store = _stored(folder)
    try:
        subprocess.run([sys.executable, "-c", OPEN, store.path()], capture_output=True, text=True, check=True)
    except subprocess.CalledProcessError as error:
        raise Exception(error.stderr.partition("Exception: ")[2]) from error  # noqa: TRY002 - as rocksdict does


def _stopped(folder: Path) -> None:
    store = _stored(folder)
    store.cancel_all_background(True)
    store[b"b"] = b"2"
    store.flush(True)


def _among_deleted(folder: Path) -> None:
    store = _stored(folder)
    for number in range(9):
        store[b"b%d" % number] = b""
        store.delete(b"b%d" % number)
    options = ReadOptions()
    options.set_max_skippable_internal_keys(3)
    cursor = store.iter(options)
    cursor.seek(b"b")
    cursor.status()


def _of_rocksdict(folder: Path) -> object:
    Rdict(str(folder / "store")).close()
    return Rdict(str(folder / "store"), Options(raw_mode=True), {"default": Options(raw_mode=True)})


def _written_elsewhere(folder: Path, name: str) -> object:
    path, options = str(unpacked(folder, name)), Options(raw_mode=True)
    return Rdict(path, options, dict.fromkeys(Rdict.list_cf(path, options), options))


def _below_a_file(folder: Path) -> Path:
    (folder / "file").touch()
    return folder / "file/below"


PROVOKED: dict[str, tuple[Callable[[Path], object], set[str]]] = {
    "damaged block": (_damaged, {"is_storage_error", "is_damage"}),
    "no table": (_without_a_table, {"is_storage_error", "is_damage", "missing_file", "ENOENT"}),
    "held here": (lambda folder: [_stored(folder), _open(folder / "store")], {"is_storage_error", "is_lock_held"}),
    "held elsewhere": (_in_another_process, {"is_storage_error", "is_lock_held"}),
    "shut down": (_stopped, {"is_storage_error"}),
    "deleted records": (_among_deleted, {"met_too_many_deleted"}),
    "no record": (lambda folder: _stored(folder).get_entity(b"b"), {"is_not_found"}),
    "key": (lambda folder: _stored(folder).get("a"), {"is_not_bytes"}),
    "value": (lambda folder: _stored(folder).put(b"a", "1"), {"is_not_bytes"}),
    "deletion": (lambda folder: _stored(folder).delete("a"), {"is_not_bytes"}),
    "comparator": (_of_rocksdict, {"other_comparator"}),
    "transactions": (lambda folder: _written_elsewhere(folder, COMMITTED), {"is_about_transactions"}),
    "family": (lambda folder: _written_elsewhere(folder, "name-not-utf8"), {"has_family_not_utf8"}),
    "RocksDB, a file": (lambda folder: _open(_below_a_file(folder)), {"ENOTDIR"}),
    "delta-rs, a file": (lambda folder: DeltaTable(_below_a_file(folder)), {"ENOTDIR"}),
    "properties": (lambda _: AdminClient({"security.protocol": "ssl", "ssl.key.pem": "-"}), {"do_not_fit_together"}),
    "another Python": (lambda _: check_python_version("2.7"), {"other_pythons"}),
    "property": (lambda _: AdminClient({"colour": "red", "log_level": 0}), {"is_unknown_property"}),
}
SPARKS = {"beginning", "error_of_python", "missing_program"}
MEANINGS: dict[str, Callable[[str], object]] = {
    **{name: meaning for name, meaning in vars(messages).items() if name.startswith(("is_", "has_family", "met_"))},
    "is_storage_error": lambda reason: messages.is_storage_error(Exception(reason)),
    **{name: getattr(messages, name) for name in ("other_comparator", "missing_file", "do_not_fit_together")},
    **{name: getattr(messages, name) for name in ("other_pythons", "missing_program")},
    "ENOENT": lambda reason: messages.has_errno(reason, errno.ENOENT),
    "ENOTDIR": lambda reason: messages.has_errno(reason, errno.ENOTDIR),
}


@pytest.mark.parametrize("case", PROVOKED)
def test_the_library_writes_what_is_looked_for(case: str, tmp_path: Path) -> None:
    provoke, expected = PROVOKED[case]
    with pytest.raises(Exception) as raised:
        provoke(tmp_path)
    error = raised.value
    reason = error.args[0].str() if isinstance(error, KafkaException) else str(error)
    assert {name for name, meaning in MEANINGS.items() if meaning(reason)} == expected, reason
    assert messages.is_storage_error(error) == ("is_storage_error" in expected)


def test_each_function_is_provoked() -> None:
    public = {name for name, each in vars(messages).items() if getattr(each, "__module__", "") == messages.__name__}
    public = {name for name in public if not name.startswith("_")}
    expected = {name for _, names in PROVOKED.values() for name in names}
    assert public - expected == {"has_errno", *SPARKS}


def test_rocksdb_names_the_statuses_that_are_not_provoked() -> None:
    [library] = Path(rocksdict.__file__).parent.glob("rocksdict*.so")
    assert [each for each in (b"Operation aborted: ", b"Resource busy: ") if each not in library.read_bytes()] == []


def test_of_several_files_the_last_one_is_missing() -> None:
    reason = "No such file or directory: /a/000012.sst: it, /b/000013.blob"
    assert messages.missing_file(reason) == "000013.blob"
    assert messages.missing_file("No such file or directory: /a/CURRENT") is None
