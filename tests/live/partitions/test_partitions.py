"""Real applications get another number of partitions, and find every key where their own partitioner looks for it."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from migrate import RefusedError, Spec, plan, run
from tests.broker.broker import Broker
from tests.live.partitions.app import KINDS, Program, found_by, make_input, records, send
from tests.live.partitions.proving import KEYS, MURMUR2, prove
from tests.support import raises

CRC32 = "consistent_random"


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return re.sub(r"[\W_]+", "-", request.node.name).strip("-")


def _spec(old: Program, base: Path, partitions: int, named: Sequence[str] | None = None) -> Spec:
    """`named`: the kinds whose stores it names."""
    first, *others = old.kinds if named is None else named
    moved: list[Any] = [{"name": old.stores[kind], "format": f"kafka-streams.{kind}"} for kind in others]
    return Spec(
        name=old.application_id.lower(),
        work_dir=base / "work",
        source={"format": f"kafka-streams.{first}", "path": old.folder, "stores": [old.stores[first], *moved]},
        target={
            "format": f"kafka-streams.{first}",
            "path": base / "new" / old.application_id,
            "partitions": partitions,
            "stores": {old.stores[kind]: f"{old.stores[kind]}-n" for kind in (first, *others)},
        },
        changelog={"bootstrap": old.bootstrap},
    )


def _next(old: Program, base: Path, partitions: int) -> Program:
    return replace(old, state_dir=base / "new", partitions=partitions, suffix="-n")


def _proved(old: Program, base: Path, partitions: int) -> None:
    def migrate() -> None:
        assert run(_spec(old, base, partitions)).state == "published"

    prove(old, _next(old, base, partitions), migrate)


def test_two_become_three(broker: Broker, tmp_path: Path, name: str) -> None:
    _proved(Program(broker.bootstrap, name, tmp_path / "state", 2, exactly_once=True), tmp_path, 3)


@pytest.mark.parametrize(
    ("version", "exactly_once"), [("4.3.1", True), ("4.3.1", False), ("4.0.1", True), ("4.0.1", False)]
)
def test_every_change(broker: Broker, tmp_path: Path, name: str, version: str, *, exactly_once: bool) -> None:
    for old, new in ((2, 3), (2, 12), (12, 2)):
        base, application = tmp_path / f"{old}-{new}", f"{name}-{old}-{new}"
        program = Program(broker.bootstrap, application, base / "state", old, version, exactly_once=exactly_once)
        _proved(program, base, new)


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_alone(broker: Broker, tmp_path: Path, name: str, kind: str) -> None:
    _proved(Program(broker.bootstrap, name, tmp_path / "state", 2, kinds=[kind]), tmp_path, 3)


def test_what_would_lose_state_is_refused(broker: Broker, tmp_path: Path, name: str) -> None:
    old = Program(broker.bootstrap, name, tmp_path / "state", 2)
    every = records(KEYS, 1)
    keys = sorted({key for key, _, _ in every})
    make_input(old, MURMUR2, every)
    before = found_by(old, keys)
    spec = _spec(old, tmp_path, 3)
    part = _spec(old, tmp_path, 3, KINDS[:2])
    raises(RefusedError, "have stores that the spec does not name: of-session, of-versioned; the tasks", run, part)
    (old.folder / "0_1").rename(tmp_path / "0_1")
    raises(RefusedError, "has 2 partitions, and its store 1 task here|orders has the tasks", run, spec)
    (tmp_path / "0_1").rename(old.folder / "0_1")
    send(old, MURMUR2, [(keys[0], "one more", every[0][2])])
    raises(RefusedError, f"group {name} has not read {old.input}, partition ", run, spec)
    assert not plan(spec).verdict.go
    assert not spec.home.exists() or not list(spec.home.glob("plan*"))
    found_by(old, keys)
    assert run(spec).state == "published"
    new = _next(old, tmp_path, 3)
    make_input(new)
    assert found_by(new, keys).keys() == before.keys()


def test_keys_of_a_crc_32_producer_are_refused(broker: Broker, tmp_path: Path, name: str) -> None:
    old = Program(broker.bootstrap, name, tmp_path / "state", 2, kinds=KINDS[:1])
    make_input(old, CRC32, records(KEYS, 1))
    found_by(old, [])
    spec = _spec(old, tmp_path, 3)
    error = raises(RefusedError, r"is in task 0_\d, and murmur2 of 2 partitions puts it into 0_\d", run, spec)
    assert error.hint == 'every sampled key is where crc32 puts it: [source] partitioner = "crc32"'
    assert spec.target_path is not None
    assert not spec.target_path.exists()
    source = spec.source.model_copy(update={"partitioner": "crc32"})
    assert plan(spec.model_copy(update={"source": source})).verdict.go
