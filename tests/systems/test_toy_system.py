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
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from formats import FORMATS, Format, StateRecord, get_format
from formats import registry as format_registry
from migrate import (
    DualReadStore,
    RefusedError,
    Spec,
    SpecError,
    StoreLockedError,
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
from migrate.dry_run import sample_conversion
from migrate.model.store_partition import ChangelogOffsets, StorePartition
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
    has_changelog=True,
)
BARE = replace(PLAIN, id="toy.bare", metadata_families=(), metadata_keys=())
STAMPED = replace(PLAIN, id="toy.stamped", value_layout=get_format(TIMESTAMPED).value_layout)


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

    def positions(self, path: Path, partition: StorePartition) -> ChangelogOffsets:
        """Under a key of the store."""
        with open_read_only(path / partition.path) as database:
            offset = database.get("default", OFFSET_KEY)
        line = (f"{path.name}-{partition.store}-changelog", int(partition.task), int(offset or -1))
        return ChangelogOffsets(lines=() if offset is None else (line,))

    def recognises(self, folder: Folder) -> bool:
        """By its file."""
        return "toy.properties" in folder.files

    def store_directories(self, path: Path) -> Iterator[StoreDirectory]:
        """One for each partition of a store."""
        for folder in sorted((path / "tables").iterdir()):
            if match := _DATABASE.fullmatch(folder.name):
                yield StoreDirectory(match[2], match[1], folder)


# That is all. What comes with it:

RECORDS = numbered(500) | {b"zebra": b"striped", b"ABC": b"def"}
INDEX = {b"by-size": b"\x01\x02"}
ENDS = {"toy-app-counts-changelog-0": 42, "toy-app-counts-changelog-1": 43}


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In the registries of systems and of formats."""
    toy = Toy()
    SYSTEMS.append(toy)
    for known in (PLAIN, STAMPED, BARE):
        monkeypatch.setitem(format_registry._BY_ID, known.id, known)
    for module in (format_registry, likeness, known_formats, allowed, sample_conversion):
        monkeypatch.setattr(module, "FORMATS", (*FORMATS, PLAIN, STAMPED))
    yield
    SYSTEMS.remove(toy)


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
        ("toy-app-counts-changelog", 0, 41, "the store"),
        ("toy-app-counts-changelog", 1, 42, "the store"),
    ]
    assert tree_state(tmp_path) == before


@pytest.mark.parametrize("verification", ["full", "digest"])
def test_it_is_cut_over_and_rolled_back(tmp_path: Path, application: Path, verification: str) -> None:
    spec = spec_of(tmp_path, application, run={"verify": verification, "chunk_size": "4 KiB"})
    old = {number: read_families(application / f"tables/counts-{number}.db") for number in (0, 1)}
    done = run(spec)
    assert (done.verification.ok, done.totals.dropped, done.totals.rejected) == (True, 0, 0)
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
    with pytest.raises(RefusedError, match="position 42 of toy-app-counts-changelog-0, position 43 of"):
        run(spec)
    with pytest.raises(RefusedError, match=r"changelog-1 ends at 44, and .* is at 43: what"):
        run(spec, changelog_ends=ENDS | {"toy-app-counts-changelog-1": 44})
    run(spec, changelog_ends=ENDS)
    cutover(spec)
    new = read_families(application / "tables/counts-0.db")["default"]
    assert (new[b"zebra"], new[OFFSET_KEY]) == (b"\xff" * 8 + b"STRIPED", b"41")


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
