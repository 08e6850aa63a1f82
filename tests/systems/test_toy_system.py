"""Adding a system: all of one is in this module, and every verb comes with it.

A system of the product is the same: formats in `formats/<system>/`, a module in `migrate/systems/`, and a line in each
of the two registries. This one keeps its changelog offset under a key among the records, and an index in a column
family of its own.

    <application>/
      toy.properties
      tables/<store>-<partition>.db/       a RocksDB directory
        default   __toy__offset -> the changelog offset of the last record applied, in ASCII; other keys are records
        index     the system's own
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from formats import FORMATS, Format, StateRecord, get_format
from formats import registry as format_registry
from migrate import (
    DualReadStore,
    RefusedError,
    Spec,
    SpecError,
    StoreLockedError,
    VerificationError,
    cutover,
    finalize,
    init_spec,
    inspect,
    plan,
    rollback,
    run,
    snapshot,
    status,
    verify,
)
from migrate.dry_run import trial
from migrate.model.events import Event
from migrate.model.store_partition import Positions, StorePartition
from migrate.spec import allowed
from migrate.stores.lock import holding_locks
from migrate.stores.regular_files import Folder
from migrate.stores.rocksdb.database import open_read_only
from migrate.survey import known_formats, likeness
from migrate.systems import SYSTEMS, StoreDirectory, System
from tests.support import TIMESTAMPED, make_families, make_spec, numbered, open_store, read_families, tree_state

OFFSET_KEY = b"__toy__offset"
_DATABASE = re.compile(r"(.+)-(\d+)\.db")

PLAIN = Format(
    id="toy.plain",
    summary="toy: key -> value",
    column_families=("default",),
    metadata_families=("index",),
    metadata_keys=(b"__toy__",),
    position_keys=(OFFSET_KEY,),
    has_changelog=True,
)
BARE = replace(PLAIN, id="toy.bare", metadata_families=(), metadata_keys=(), position_keys=())
STAMPED = replace(PLAIN, id="toy.stamped", value_layout=get_format(TIMESTAMPED).value_layout)
LOGGED = replace(STAMPED, id="toy.logged", changelog_layout=STAMPED.value_layout)
MOVING = replace(PLAIN, id="moving.plain")
NEXT = replace(PLAIN, id="next.plain", metadata_families=("position",), position_keys=(b"next",))
PACKED = replace(BARE, id="packed.plain", metadata_families=("index",), metadata_keys=(b"__toy__",))
PACKED_STAMPED = replace(PACKED, id="packed.stamped", value_layout=STAMPED.value_layout)


class Toy(System):
    """`[source] path` is the application's directory."""

    name = "toy"
    title = "Toy"

    def find(self, path: Path, stores: Sequence[str], *, is_segmented: bool) -> list[StorePartition]:
        """Raises RefusedError where one is not there."""
        found = [each for each in self.store_directories(path) if each.store in stores]
        if missing := {*stores} - {each.store for each in found}:
            raise RefusedError(f"no store {min(missing)!r} in {path}", hint="check [source] store")
        return [
            StorePartition(id=each.path.name, store=each.store, task=each.task, path=each.path.relative_to(path))
            for each in sorted(found, key=lambda each: stores.index(each.store))
        ]

    def lock_files(self, path: Path, partitions: Sequence[StorePartition]) -> list[Path]:
        """RocksDB's own."""
        return [folder / "LOCK" for each in partitions for folder in each.directories(path).values()]

    def positions(self, path: Path, partition: StorePartition) -> Positions:
        """Under a key of the store."""
        with open_read_only(path / partition.path) as database:
            offset = database.get("default", OFFSET_KEY)
        topic = self.changelog_topic(path.name, partition.task, partition.store)
        line = (topic, int(partition.task), int(offset or -1))
        return Positions(lines=() if offset is None else (line,))

    def changelog_topic(self, application: str, task: str, store: str) -> str:
        """Named the other way round."""
        return f"changelog-{application}-{store}"

    def position_entries(self, partition: StorePartition, positions: Positions) -> dict[str, dict[bytes, bytes]]:
        """The same."""
        return {"default": {OFFSET_KEY: b"%d" % positions.lines[0][2]}} if positions.lines else {}

    def recognises(self, folder: Folder) -> bool:
        """By its file."""
        return "toy.properties" in folder.files

    def store_directories(self, path: Path) -> Iterator[StoreDirectory]:
        """One for each partition of a store."""
        for folder in sorted((path / "tables").iterdir()):
            if match := _DATABASE.fullmatch(folder.name):
                yield StoreDirectory(match[2], match[1], folder)

    def foreign_entries(self, path: Path) -> Iterator[str]:
        """What `inspect` cannot read."""
        for file in sorted((path / "tables").glob("*.zip")):
            yield f"{file} is an archive: `stateferry plan` reads it"


# That is all. Two systems between which stores move:


class Moving(Toy):
    """A task for each partition."""

    name = "moving"

    def place(self, task: str, store: str, *, is_segmented: bool) -> Path:
        """As in every toy."""
        return Path(f"tables/{store}-{task}.db")

    def task_numbers(self, task: str) -> tuple[int, int]:
        """There are no subtopologies."""
        return 0, int(task)

    def task_name(self, numbers: tuple[int, int]) -> str:
        """The partition."""
        return str(numbers[1])


class Packed(Toy):
    """A store is a zip of a RocksDB directory."""

    name = "packed"

    def find(self, path: Path, stores: Sequence[str], *, is_segmented: bool) -> list[StorePartition]:
        """None is missing."""
        return [
            StorePartition(id=file.name[:-4], store=store, task="0", path=Path("tables", file.name[:-4]))
            for store in stores
            for file in sorted((path / "tables").glob(f"{store}-?.db.zip"))
        ]

    def lock_files(self, path: Path, partitions: Sequence[StorePartition]) -> list[Path]:
        """Nothing is locked."""
        return []

    def archive(self, path: Path, partition: StorePartition) -> Path | None:
        """Beside where the directory would be."""
        return (path / partition.path).with_suffix(".db.zip")

    def unpack(self, archive: Path, partition: StorePartition, folder: Path) -> None:
        """All of it."""
        shutil.unpack_archive(archive, folder)

    def positions(self, path: Path, partition: StorePartition) -> Positions:
        """They are not known without unpacking."""
        return Positions()


class Next(Moving):
    """It keeps the offset of the next record, in a column family of its own."""

    name = "next"
    ahead = 1

    def position_entries(self, partition: StorePartition, positions: Positions) -> dict[str, dict[bytes, bytes]]:
        """One key."""
        return {"position": {b"next": b"%d" % positions.lines[0][2]}} if positions.lines else {}


# What comes with them:

RECORDS = numbered(500) | {b"zebra": b"striped", b"ABC": b"def"}
INDEX = numbered(3000, seed=1) | {b"by-size": b"\x01\x02"}
ENDS = {"changelog-toy-app-counts-0": 42, "changelog-toy-app-counts-1": 43}


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In the registries of systems and of formats."""
    systems = [Toy(), Moving(), Next(), Packed()]
    SYSTEMS.extend(systems)
    for known in (PLAIN, STAMPED, LOGGED, BARE, MOVING, NEXT, PACKED, PACKED_STAMPED):
        monkeypatch.setitem(format_registry._BY_ID, known.id, known)
    for module in (format_registry, likeness, known_formats, allowed, trial):
        monkeypatch.setattr(module, "FORMATS", (*FORMATS, PLAIN, STAMPED))
    yield
    for system in systems:
        SYSTEMS.remove(system)


@pytest.fixture
def application(tmp_path: Path) -> Path:
    """Two stores, one of them in two partitions."""
    path = tmp_path / "toy-app"
    for store, partition in (("counts", 0), ("counts", 1), ("other", 0)):
        records = RECORDS | {OFFSET_KEY: b"%d" % (41 + partition), b"__toy__made": b"today"}
        make_families(path / f"tables/{store}-{partition}.db", {"default": records, "index": INDEX})
    (path / "toy.properties").write_text("", encoding="utf-8")
    return path


def spec_of(tmp_path: Path, application: Path, /, **sections: object) -> Spec:
    """Its store becomes a stamped one, in place."""
    sections = {"source": {"store": "counts"}, "target": {"path": None}, **sections}
    return make_spec(tmp_path, application, source_format=PLAIN.id, target_format=STAMPED.id, **sections)


def expected(partition: int) -> dict[str, dict[bytes, bytes]]:
    """A new store: records are converted, what is the system's own is as it was."""
    new = {key: STAMPED.encode(StateRecord(key, value, -1))[1] for key, value in RECORDS.items()}
    own = {OFFSET_KEY: b"%d" % (41 + partition), b"__toy__made": b"today"}
    return {"default": dict(sorted((new | own).items())), "index": INDEX}


def test_it_is_inspected(application: Path) -> None:
    found = inspect(application)
    assert [(place.system, place.can_be_migrated) for place in found.places] == [("toy", True)]
    assert [(store.name, store.store_partitions) for store in found.stores] == [
        ("counts", ("0/counts", "1/counts")),
        ("other", ("0/other",)),
    ]
    assert set(found.stores[0].formats) == {"toy.plain", "toy.stamped"}
    assert inspect(application / "tables/other-0.db").places[0].sentence.startswith("Toy: tables/other-0.db")


def test_a_spec_is_made_of_it(tmp_path: Path, application: Path) -> None:
    made = init_spec(application, to=STAMPED.id, store="counts", source_format=PLAIN.id, output=tmp_path / "new.toml")
    assert (made.store, made.source_format, made.store_partitions) == (
        "counts",
        "toy.plain",
        ("counts-0.db", "counts-1.db"),
    )
    assert STAMPED.id in allowed.possible_targets(PLAIN, STAMPED)


def test_a_dry_run_says_what_would_be_done(tmp_path: Path, application: Path) -> None:
    before = tree_state(tmp_path)
    planned = plan(spec_of(tmp_path, application), full=True)
    assert planned.verdict.go, planned.checks
    assert planned.found is not None
    positions = [each for database in planned.found.databases for each in database.positions]
    assert [(each.topic, each.partition, each.offset, each.where) for each in positions] == [
        ("changelog-toy-app-counts", 0, 41, "the store"),
        ("changelog-toy-app-counts", 1, 42, "the store"),
    ]
    assert tree_state(tmp_path) == before


@pytest.mark.parametrize("verification", ["full", "digest"])
def test_it_is_cut_over_and_rolled_back(tmp_path: Path, application: Path, verification: str) -> None:
    spec = spec_of(tmp_path, application, run={"verify": verification, "chunk_size": "4 KiB"})
    old = {number: read_families(application / f"tables/counts-{number}.db") for number in (0, 1)}
    done = run(spec)
    assert (done.verification.ok, done.totals.dropped, done.totals.rejected) == (True, 2, 0)
    assert verify(spec).verification.ok
    assert cutover(spec).state == "cut over"
    for number in (0, 1):
        assert read_families(application / f"tables/counts-{number}.db") == expected(number)
    assert read_families(application / "tables/other-0.db")["default"][b"zebra"] == b"striped"
    assert rollback(spec).state == "rolled back"
    assert {number: read_families(application / f"tables/counts-{number}.db") for number in (0, 1)} == old
    cutover(spec)
    assert finalize(spec).state == status(spec).state == "finalized"


def test_a_new_directory_is_published(tmp_path: Path, application: Path) -> None:
    run(spec_of(tmp_path, application, target={"path": "new"}))
    assert read_families(tmp_path / "new/tables/counts-1.db") == expected(1)
    assert read_families(tmp_path / "new/tables/other-0.db") == read_families(application / "tables/other-0.db")
    assert (tmp_path / "new/toy.properties").exists()


def test_a_snapshot_is_converted_while_it_goes_on(tmp_path: Path, application: Path) -> None:
    spec = spec_of(tmp_path, application, run={"source": "snapshot"})
    snapshot(spec)
    run(spec)
    with open_store(application / "tables/counts-0.db") as database:
        database.get_column_family("default")[OFFSET_KEY] = b"50"
    cutover(spec)
    assert read_families(application / "tables/counts-0.db") == expected(0)


def test_its_own_offset_is_held_against_the_changelogs_end(tmp_path: Path, application: Path) -> None:
    (tmp_path / "shout.py").write_text(
        "from dataclasses import replace\n\n\ndef shout(record):\n"
        "    return replace(record, value=record.value.upper())\n",
        encoding="utf-8",
    )
    spec = spec_of(tmp_path, application, conversion={"function": "shout:shout", "allow": ["changelog"]})
    with pytest.raises(RefusedError, match="position 42 of changelog-toy-app-counts-0, position 43 of"):
        run(spec)
    with pytest.raises(RefusedError, match=r"counts-1 ends at 44, and .* is at 43: what"):
        run(spec, changelog_ends=ENDS | {"changelog-toy-app-counts-1": 44})
    run(spec, changelog_ends=ENDS)
    cutover(spec)
    new = read_families(application / "tables/counts-0.db")["default"]
    assert (new[b"zebra"], new[OFFSET_KEY]) == (b"\xff" * 8 + b"STRIPED", b"41")


@pytest.mark.parametrize("verification", ["full", "digest"])
def test_offsets_inside_a_store_are_written_as_another_system_states_them(
    tmp_path: Path, application: Path, verification: str
) -> None:
    sections: dict[str, object] = {"target": {"path": "new"}, "run": {"verify": verification}}
    sections["source"] = {"store": "counts"}
    spec = make_spec(tmp_path, application, source_format=MOVING.id, target_format=NEXT.id, **sections)
    assert run(spec).verification.ok
    assert read_families(tmp_path / "new/tables/counts-1.db") == {
        "default": dict(sorted((RECORDS | {b"__toy__made": b"today"}).items())),
        "position": {b"next": b"43"},
    }
    assert verify(spec).verification.ok


@pytest.fixture
def packed(tmp_path: Path, application: Path) -> Spec:
    """Its stores are packed, and a new directory is made of them."""
    for folder in sorted((application / "tables").iterdir()):
        shutil.make_archive(str(folder), "zip", folder)
        shutil.rmtree(folder)
    sections: dict[str, object] = {"source": {"store": "counts"}, "target": {"path": "new"}}
    return make_spec(tmp_path, application, source_format=PACKED.id, target_format=PACKED_STAMPED.id, **sections)


def test_a_packed_store_is_planned_and_published(tmp_path: Path, packed: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (tmp_path / "temporary").mkdir()
    before = tree_state(tmp_path)
    assert plan(packed, full=True).verdict.go
    assert list((tmp_path / "temporary").iterdir()) == []
    assert tree_state(tmp_path) | {"temporary": ()} == before | {"temporary": ()}
    run(packed)
    assert read_families(tmp_path / "new/tables/counts-1.db") == expected(1)
    assert {path.name for path in (tmp_path / "new/tables").iterdir()} == {
        "counts-0.db",
        "counts-1.db",
        "other-0.db.zip",
    }
    assert verify(packed).verification.ok
    assert run(packed).totals.records_in == 2 * len(RECORDS) + 4


def test_a_run_on_a_packed_store_is_resumed_from_its_snapshot(packed: Spec) -> None:
    def interrupt(event: Event) -> None:
        if event.name == "assemble.started":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(packed, on_event=interrupt)
    taken = (packed.home / "snapshot").stat().st_ino
    assert run(packed).verification.ok
    assert (packed.home / "snapshot").stat().st_ino == taken


def test_a_packed_store_is_not_exchanged(tmp_path: Path, application: Path, packed: Spec) -> None:
    sections: dict[str, object] = {"source": {"store": "counts"}, "target": {"path": None}}
    spec = make_spec(tmp_path, application, source_format=PACKED.id, target_format=PACKED_STAMPED.id, **sections)
    with pytest.raises(RefusedError, match=r"lies in the archive .*counts-0\.db\.zip, which cannot be exchanged"):
        run(spec)
    assert any("counts-0.db.zip is an archive" in sentence for sentence in inspect(application).warnings)


@pytest.mark.parametrize("verification", ["full", "digest"])
@pytest.mark.parametrize("changed", [("default", OFFSET_KEY), ("index", b"by-size")])
def test_what_is_not_a_record_is_verified(
    tmp_path: Path, application: Path, verification: Literal["full", "digest"], changed: tuple[str, bytes]
) -> None:
    spec = spec_of(tmp_path, application)
    (new_store, _) = run(spec).new_stores
    with open_store(new_store) as database:
        database.get_column_family(changed[0])[changed[1]] = b"1"
    with pytest.raises(VerificationError, match="changelog offsets" if changed[0] == "default" else "content"):
        verify(spec, mode=verification)


def test_a_changelog_of_another_form_must_be_allowed(tmp_path: Path, application: Path) -> None:
    value = STAMPED.encode(StateRecord(b"k", b"v", 5))[1]
    assert STAMPED.changelog_record(b"k", value) == (b"k", b"v")
    assert LOGGED.changelog_record(b"k", value) == (b"k", value)
    with pytest.raises(RefusedError, match="the changelog topic would still hold records of the old form"):
        run(spec_of(tmp_path, application, target={"format": LOGGED.id}))


def test_what_the_target_does_not_know_is_left_out(tmp_path: Path, application: Path) -> None:
    done = run(spec_of(tmp_path, application, target={"format": BARE.id}))
    assert (done.totals.records_in, done.totals.dropped) == (2 * len(RECORDS) + 4, 4)
    assert read_families(done.new_stores[0]) == {"default": dict(sorted(RECORDS.items()))}


def test_the_lazy_adapter_refuses_stores_with_keys_that_are_no_records(tmp_path: Path, application: Path) -> None:
    with pytest.raises(SpecError, match="entries among the records, which the adapter does not know"):
        DualReadStore.open(
            tmp_path / "new", old_path=application / "tables/counts-0.db", source=PLAIN.id, target=STAMPED.id
        )


def test_a_running_application_keeps_a_run_out(tmp_path: Path, application: Path) -> None:
    with holding_locks([application / "tables/counts-1.db/LOCK"]), pytest.raises(StoreLockedError):
        run(spec_of(tmp_path, application))


@pytest.mark.parametrize(
    ("sections", "reason"),
    [
        ({"source": {"store": "count"}}, "no store 'count' in"),
        ({"target": {"format": TIMESTAMPED, "path": "new"}}, "stores of Toy cannot move to or from another system"),
    ],
)
def test_what_it_does_not_know_is_refused(
    tmp_path: Path, application: Path, sections: dict[str, object], reason: str
) -> None:
    with pytest.raises(RefusedError, match=reason):
        run(spec_of(tmp_path, application, **sections))
