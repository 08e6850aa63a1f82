"""Adding a system: every verb works on the stores of the toy systems, which `toys.py` adds."""

from pathlib import Path
from typing import Literal

import pytest

from formats import StateRecord
from formats.changelog import ChangelogRecord
from migrate import (
    DualReadStore,
    RefusedError,
    SourceChangedError,
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
from migrate.batch.source.changelog_ends import check_ends
from migrate.batch.source.source import find_source
from migrate.batch.steps.assemble import carried_records
from migrate.model.plan import DatabasePlan
from migrate.spec import allowed
from migrate.stores.lock import holding_locks
from tests.support import make_spec, open_store, read_families, tree_state
from tests.systems.toys import (
    BARE,
    CHANGELOG_OFFSET,
    ENDS,
    INDEX,
    LOGGED,
    METADATA,
    NEXT,
    OFFSET_KEY,
    PACKED_STAMPED,
    PLAIN,
    RECORDS,
    STAMPED,
    expected,
)

pytestmark = pytest.mark.usefixtures("registered")


def spec_of(tmp_path: Path, application: Path, /, **sections: object) -> Spec:
    """Its store becomes a stamped one, in place."""
    sections = {"source": {"store": "counts"}, "target": {"path": None}, **sections}
    return make_spec(tmp_path, application, source_format=PLAIN.id, target_format=STAMPED.id, **sections)


def test_it_is_inspected(application: Path) -> None:
    found = inspect(application)
    assert [(place.system, place.can_be_migrated) for place in found.places] == [("tables", True)]
    assert [(store.name, store.store_partitions) for store in found.stores] == [
        ("counts", ("0/counts", "1/counts")),
        ("other", ("0/other",)),
    ]
    assert set(found.stores[0].formats) == {"tables.plain", "tables.stamped"}
    assert inspect(application / "tables/other-0.db").places[0].sentence.startswith("Tables: tables/other-0.db")


def test_a_spec_is_made_of_it(tmp_path: Path, application: Path) -> None:
    made = init_spec(application, to=STAMPED.id, store="counts", source_format=PLAIN.id, output=tmp_path / "new.toml")
    assert (made.store, made.source_format, made.store_partitions) == (
        "counts",
        "tables.plain",
        ("0/counts", "1/counts"),
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
    assert (done.verification.ok, done.totals.not_carried, done.totals.dropped) == (True, 2, 0)
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


def test_a_store_that_was_reset_since_its_snapshot_is_not_exchanged(tmp_path: Path, application: Path) -> None:
    spec = spec_of(tmp_path, application, run={"source": "snapshot"})
    snapshot(spec)
    run(spec)
    with open_store(application / "tables/counts-1.db") as database:
        database.get_column_family("default")[OFFSET_KEY] = b"7"
    with pytest.raises(SourceChangedError, match="1/counts is at an earlier changelog position than its snapshot"):
        cutover(spec)


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


def test_an_end_before_its_offset_is_refused_as_it_counts_no_stops(tmp_path: Path, application: Path) -> None:
    spec = spec_of(tmp_path, application)
    ends = {"toy-app-counts-changelog-0": 42, "toy-app-counts-changelog-1": 43}
    source = find_source(spec)
    assert "every changelog ends where its store is" in str(check_ends(source, ends))
    with pytest.raises(RefusedError, match=r"changelog-1 ends at 41, and .* is at 43 already"):
        check_ends(source, ends | {"toy-app-counts-changelog-1": 41})


@pytest.mark.parametrize("verification", ["full", "digest"])
def test_offsets_inside_a_store_are_written_as_another_system_states_them(
    tmp_path: Path, application: Path, verification: str
) -> None:
    sections: dict[str, object] = {"target": {"path": "new"}, "run": {"verify": verification}}
    sections["source"] = {"store": "counts"}
    spec = make_spec(tmp_path, application, source_format=PLAIN.id, target_format=NEXT.id, **sections)
    assert run(spec).verification.ok
    assert read_families(tmp_path / "new/counts/stream0/1") == {
        "default": dict(sorted(RECORDS.items())),
        METADATA: {CHANGELOG_OFFSET: (42).to_bytes(8, "big")},
    }
    assert verify(spec).verification.ok


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


def test_a_large_family_beside_the_records_is_carried_in_batches(application: Path) -> None:
    mapped = DatabasePlan(store_partition="0", database=".", mappings=(), carried_families=("index",), data_bytes=0)
    batches = list(carried_records(mapped, {".": application / "tables/counts-0.db"}, "index", [b"by-size"]))
    assert len(batches) > 2
    assert [key for batch in batches for key in batch.keys] == sorted(INDEX.keys() - {b"by-size"})


def test_a_changelog_of_another_form_must_be_allowed(tmp_path: Path, application: Path) -> None:
    value = STAMPED.encode(StateRecord(b"k", b"v", 5))[1]
    assert STAMPED.changelog_form.records(b"k", value) == (ChangelogRecord(b"k", b"v", 5),)
    assert LOGGED.changelog_form.records(b"k", value) == (ChangelogRecord(b"k", value, 5),)
    with pytest.raises(RefusedError, match="the changelog topic would still hold records of the old form"):
        run(spec_of(tmp_path, application, target={"format": LOGGED.id}))


def test_what_the_target_does_not_know_is_left_out(tmp_path: Path, application: Path) -> None:
    done = run(spec_of(tmp_path, application, target={"format": BARE.id}))
    assert (done.totals.records_in, done.totals.not_carried) == (2 * len(RECORDS) + 4, 4)
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
        (
            {"target": {"format": PACKED_STAMPED.id, "path": "new"}},
            "stores of Checkpoints cannot move to or from another system",
        ),
    ],
)
def test_what_it_does_not_know_is_refused(
    tmp_path: Path, application: Path, sections: dict[str, object], reason: str
) -> None:
    with pytest.raises(RefusedError, match=reason):
        run(spec_of(tmp_path, application, **sections))
