"""A changed key belongs to the partition of the old one, as far as the old keys show how keys are spread."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from formats import StateRecord
from formats.partitioners import PARTITIONERS
from migrate import catch_up, plan, run
from migrate.batch.chunk.executor import in_process
from migrate.batch.context import Context
from migrate.batch.home import load_plan
from migrate.batch.run import run_with
from migrate.dry_run.dry_run_report import DryRunReport
from migrate.errors import RefusedError, RejectedError
from migrate.queries.side_by_side import SideBySideStores
from tests.batch.changelog.support import NOW, TASKS, WINDOW, App, Record
from tests.broker.broker import Broker
from tests.shared.windowed import window_key
from tests.sorting import sorting
from tests.support import TIMESTAMPED, raises

COUNT = 200
PARTITIONS = len(TASKS)
OLD, NEW = b"\0\0\0\0\1", b"\0\0\0\0\2"
"""Frames of two schemas; behind them is the size of a string, and the string."""
BY_FUNCTION = {"function": f"{__name__}:other_schema", "allow": ["key-change"]}
BY_SERDE = {
    "allow": ["key-change"],
    "key": {
        "from": {"serde": "avro", "frame": "confluent", "schemas": {"1": "key.avsc"}},
        "to": {"serde": "avro", "frame": "confluent", "id": 2, "schema": "key.avsc"},
    },
}
SKIP = {"on_reject": "skip", "max_rejects": 3 * COUNT}


def other_schema(record: StateRecord) -> StateRecord:
    """Gives keys another schema id."""
    return replace(record, key=NEW + record.key[len(OLD) :])


def by_modulo(key: bytes, partitions: int) -> int:
    """A partitioner of the application's own."""
    return sum(key) % partitions


@dataclass(frozen=True)
class KeyedApp(App):
    """An application whose keys are where this partitioner puts them."""

    partition_of: Callable[[bytes, int], int] = PARTITIONERS["murmur2"]

    def old(self, number: int) -> dict[bytes, Record]:
        keys = (OLD + b"\x12key-%05d" % each for each in range(self.count))
        mine = [key for key in keys if self.partition_of(key, PARTITIONS) == number]
        if self.kind == WINDOW:  # two of each
            mine = [window_key(key, NOW - 60_000 * at) for key in mine for at in (2, 1)]
        return {key: (b"value of %s" % key, NOW) for key in mine}

    def is_misplaced(self, key: bytes, number: int) -> bool:
        """Whether an old key's new one belongs to another partition."""
        new = NEW + (key[len(OLD) : -12] if self.kind == WINDOW else key[len(OLD) :])
        return self.partition_of(new, PARTITIONS) != number

    def expected(self, number: int) -> dict[bytes, Record]:
        old = self.old(number)
        return {NEW + key[len(OLD) :]: old[key] for key in old if not self.is_misplaced(key, number)}

    @property
    def misplaced(self) -> int:
        """How many records."""
        tasks = range(len(TASKS))
        return sum(self.is_misplaced(key, number) for number in tasks for key in self.old(number))


def _app(
    name: str,
    base: Path,
    broker: Broker,
    partitioner: str = "murmur2",
    *,
    conversion: Mapping[str, Any] = BY_FUNCTION,
    run_section: Mapping[str, Any] | None = None,
    **changed: Any,  # noqa: ANN401 - the fields
) -> KeyedApp:
    sections = {
        "conversion": dict(conversion),
        "run": {"chunk_size": "8 KiB", **(run_section or {})},
    }
    (base / "key.avsc").write_text('"string"', encoding="ascii")
    of = PARTITIONERS.get(partitioner, by_modulo)
    return KeyedApp(name, base, broker, partition_of=of, **{"count": COUNT, "sections": sections, **changed}).make()


def _check(report: DryRunReport, name: str) -> tuple[str, str]:
    (check,) = (each for each in report.checks if each.name == name)
    return check.outcome, check.detail


@pytest.mark.parametrize("partitioner", ["murmur2", "crc32"])
def test_plan_counts_keys_that_belong_elsewhere(partitioner: str, broker: Broker, tmp_path: Path) -> None:
    app = _app(f"keys-{partitioner}", tmp_path, broker, partitioner)
    assert 0 < app.misplaced <= COUNT
    report = plan(app.spec)
    assert (report.verdict.exit_code, report.verdict.go) == (6, False)
    assert f"{app.misplaced} of {COUNT} records get a key that belongs to another partition" in report.verdict.sentence
    assert f"{partitioner} of 2 partitions" in _check(report, "conversion.places")[1]
    assert report.tried is not None
    assert report.tried.rejected == app.misplaced
    assert {each.reason.partition(" #")[0] for each in report.tried.rejects} == {"the new key belongs to partition"}


@pytest.mark.parametrize("is_sorted", [False, True])
def test_a_key_that_belongs_elsewhere_is_a_reject(broker: Broker, tmp_path: Path, is_sorted: bool) -> None:
    app = _app(f"keys-reject-{int(is_sorted)}", tmp_path, broker, run_section={"sort": is_sorted})
    opener = sorting if is_sorted else in_process
    raises(RejectedError, r"the new key belongs to partition [01]", run_with, opener, Context(app.spec))


@pytest.mark.parametrize(
    ("kind", "conversion"),
    [(TIMESTAMPED, BY_FUNCTION), (WINDOW, BY_FUNCTION), (TIMESTAMPED, BY_SERDE)],
    ids=["function", "windows", "serde"],
)
def test_what_is_left_out_is_left_out_in_every_pass(
    kind: str, conversion: Mapping[str, Any], broker: Broker, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Also by the verification, and in the changelog; of a window the key within counts."""
    name = f"keys-skipped-{request.node.callspec.id}"
    app = _app(name, tmp_path, broker, conversion=conversion, run_section=SKIP, kind=kind)
    report = run(app.spec)
    assert report.verification is not None
    assert report.verification.ok
    assert report.totals.rejected == app.misplaced > 0
    assert app.all_restored()
    stored = load_plan(app.spec.home)
    assert stored is not None
    assert [(each.partitioner, each.partitions, each.number) for each in stored.key_places] == [
        ("murmur2", 2, 0),
        ("murmur2", 2, 1),
    ]
    if kind == TIMESTAMPED:
        found = SideBySideStores(app.spec).first(None, limit=2 * COUNT).records
        assert sum(each.verdict == "rejected" for each in found) == app.misplaced


@pytest.mark.parametrize("kind", [TIMESTAMPED, WINDOW])
def test_sorted_keys_are_checked_and_not_caught_up(kind: str, broker: Broker, tmp_path: Path) -> None:
    name = f"keys-sorted-{kind.rpartition('-')[2]}"
    app = _app(name, tmp_path, broker, run_section={**SKIP, "sort": True}, kind=kind)
    report = run_with(sorting, Context(app.spec))
    assert report.verification is not None
    assert report.verification.ok
    assert report.totals.rejected == app.misplaced > 0
    assert app.all_restored()
    error = raises(RefusedError, "the new keys of .* were sorted, and what came since", catch_up, app.spec)
    assert error.hint.startswith("start and stop the old application once, cleanly")


def test_keys_of_a_tail_are_checked_too(broker: Broker, tmp_path: Path) -> None:
    app = _app("keys-tail", tmp_path, broker, conversion=BY_SERDE, run_section=SKIP)
    run(app.spec)
    later = replace(app, count=COUNT + 50).old(0)
    tail = {key: record for key, record in later.items() if key not in app.old(0)}
    app.write(app.topic, 0, tail)
    (found,) = (each for each in catch_up(app.spec).tails if each.store_partition.startswith(TASKS[0]))
    assert found.rejected == sum(app.is_misplaced(key, 0) for key in tail)
    assert 0 < found.rejected < len(tail)
    assert app.restored(0) == replace(app, count=COUNT + 50).expected(0)


@pytest.mark.parametrize(
    ("partitioner", "count", "why"),
    [("own", COUNT, "are not where murmur2 or crc32 puts them"), ("murmur2", 40, "has 40 sampled keys, too few")],
    ids=["another partitioner", "few keys"],
)
def test_where_old_keys_do_not_show_their_places_that_is_said(
    partitioner: str, count: int, why: str, broker: Broker, tmp_path: Path
) -> None:
    app = _app(f"keys-unknown-{partitioner}", tmp_path, broker, partitioner, count=count)
    report = plan(app.spec)
    outcome, detail = _check(report, "conversion.places")
    assert outcome == "warning"
    assert "nobody checks that a new key belongs to the partition of the old one" in detail
    assert why in detail
    assert report.verdict.exit_code == 0
    assert any("nobody checks" in each for each in run(app.spec).warnings)
    assert "so the plan of this migration says of 2 store partitions" in _check(plan(app.spec), "conversion.places")[1]


def test_without_a_changelog_it_is_said_that_nobody_checks(broker: Broker, tmp_path: Path) -> None:
    app = _app("keys-alone", tmp_path, broker)
    allow = ["key-change", "changelog", "unclean-source"]
    content = {
        **app.content,
        "conversion": {**app.content["conversion"], "allow": allow},
        "target": {"format": app.kind},
    }
    del content["changelog"]
    report = plan(type(app.spec)(**content, base_dir=tmp_path))
    outcome, detail = _check(report, "conversion.places")
    assert (outcome, "without [changelog]" in detail) == ("warning", True)
    assert report.verdict.exit_code == 0
    (claim,) = [each.claim for each in report.checks if each.name == "conversion.partitions"]
    assert "is known" in claim, "nobody has checked it"
