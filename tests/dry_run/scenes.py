"""Good and bad situations in which a migration may begin, or go on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import migrate
from migrate.spec import Spec
from migrate.stores.lock import one_run_at_a_time
from tests.support import (
    KEY_VALUE,
    TIMESTAMPED,
    copy_fixture,
    flip_byte,
    make_families,
    make_spec,
    make_store,
    numbered,
    open_store,
    raw_spec,
)
from tests.switching.support import StopAt, StoppedError, in_place_spec, make_application


@dataclass
class Scene:
    """A spec over a store, and what else is so while both verbs look at it."""

    spec: Spec
    around: AbstractContextManager[object] = field(default_factory=nullcontext)
    code: int = 0


SOME_REJECTED = "if record.key.endswith(b'77'): raise ValueError('x')\nreturn record"
"""40 of 4000."""
Arrange = Callable[[Path], Scene]


def raw(folder: Path, /, *, function: str | None = None, **sections: Any) -> Spec:  # noqa: ANN401
    """4000 records in several chunks; `function`: the body of a conversion of `record`."""
    store = folder / "state"
    if not store.exists():
        make_store(store, numbered(4000))
    sections.setdefault("run", {})
    sections["run"].setdefault("chunk_size", 30_000)
    if function is not None:
        lines = "\n    ".join(function.strip().split("\n"))
        code = "from dataclasses import replace\nimport random, itertools\ncount = itertools.count()\n"
        code += f"def convert(record):\n    {lines}\n"
        (folder / "conversion.py").write_text(code)
        sections["conversion"] = {
            "function": "conversion:convert",
            "allow": ["key-change"],
            **sections.get("conversion", {}),
        }
    return raw_spec(folder, store, **sections)


def application(folder: Path, **sections: Any) -> Spec:  # noqa: ANN401
    """Three tasks of Kafka Streams."""
    return make_spec(
        folder,
        copy_fixture(folder),
        **{"source_format": KEY_VALUE, "target_format": TIMESTAMPED, "source": {"store": "orders"}, **sections},
    )


def nothing_wrong(folder: Path) -> Scene:
    return Scene(raw(folder))


def an_application(folder: Path) -> Scene:
    return Scene(application(folder, target={"path": None}))


def missing_manifest(folder: Path) -> Scene:
    spec = application(folder)
    next((spec.source_path / "0_1/rocksdb/orders").glob("MANIFEST-*")).unlink()
    return Scene(spec, code=6)


def missing_current(folder: Path) -> Scene:
    spec = raw(folder)
    (spec.source_path / "CURRENT").unlink()
    return Scene(spec, code=6)


def truncated_sst(folder: Path) -> Scene:
    spec = application(folder)
    sst = next((spec.source_path / "0_1/rocksdb/orders").glob("*.sst"))
    sst.write_bytes(sst.read_bytes()[:-100])
    return Scene(spec, code=6)


def missing_sst(folder: Path) -> Scene:
    spec = raw(folder)
    next(spec.source_path.glob("*.sst")).unlink()
    return Scene(spec, code=6)


def damaged_block(folder: Path) -> Scene:
    spec = raw(folder)
    sst = next(spec.source_path.glob("*.sst"))
    flip_byte(sst, sst.stat().st_size // 2)
    return Scene(spec, code=3)


def damaged_first_block(folder: Path) -> Scene:
    spec = raw(folder)
    flip_byte(next(spec.source_path.glob("*.sst")), 100)
    return Scene(spec, code=3)


def no_options_file(folder: Path) -> Scene:
    spec = raw(folder)
    for file in spec.source_path.glob("OPTIONS-*"):
        file.unlink()
    return Scene(spec)


def wrong_format(folder: Path) -> Scene:
    return Scene(application(folder, source={"store": "orders", "format": TIMESTAMPED}), code=6)


def loss_not_allowed(folder: Path) -> Scene:
    return Scene(
        application(folder, source={"store": "customers"}, source_format=TIMESTAMPED, target_format=KEY_VALUE), code=6
    )


def changelog_not_allowed(folder: Path) -> Scene:
    return Scene(raw(folder, target={"format": KEY_VALUE}), code=6)


def no_such_store(folder: Path) -> Scene:
    return Scene(application(folder, source={"store": "order"}), code=6)


def target_exists(folder: Path) -> Scene:
    (folder / "new").mkdir()
    return Scene(raw(folder), code=6)


def target_inside_the_source(folder: Path) -> Scene:
    return Scene(application(folder, target={"path": "orders-app/new"}), code=6)


def work_dir_inside_the_source(folder: Path) -> Scene:
    return Scene(application(folder, work_dir="orders-app/work"), code=6)


def work_dir_with_a_percent_sign(folder: Path) -> Scene:
    return Scene(raw(folder, work_dir="100%"), code=6)


def work_dir_is_a_file(folder: Path) -> Scene:
    (folder / "work").write_text("")
    return Scene(raw(folder), code=6)


def foreign_file(folder: Path) -> Scene:
    spec = raw(folder, target={"path": None})
    (spec.source_path / "notes.txt").write_text("")
    return Scene(spec, code=6)


def function_drops_and_rejects(folder: Path) -> Scene:
    body = (
        "if record.key.endswith(b'7'): raise ValueError('seven')\nreturn None if record.key.endswith(b'3') else record"
    )
    return Scene(raw(folder, function=body, run={"on_reject": "skip", "max_reject_share": 0.5}))


def function_rejects(folder: Path) -> Scene:
    return Scene(raw(folder, function="if record.key.endswith(b'77'): raise ValueError('x')\nreturn record"), code=3)


def function_exits(folder: Path) -> Scene:
    return Scene(raw(folder, function="if record.key.endswith(b'77'): raise SystemExit(0)\nreturn record"), code=3)


def function_rejects_all(folder: Path) -> Scene:
    return Scene(raw(folder, function="raise ValueError('x')", run={"on_reject": "skip"}), code=6)


def function_rejects_one_of_two_families(folder: Path) -> Scene:
    make_families(folder / "state", {"good": numbered(300), "bad": numbered(300, prefix=b"bad")})
    body = "if record.key.startswith(b'bad'): raise ValueError('x')\nreturn record"
    return Scene(raw(folder, function=body, run={"on_reject": "skip", "max_rejects": 300}))


def max_rejects_just_enough(folder: Path) -> Scene:
    return Scene(raw(folder, function=SOME_REJECTED, run={"on_reject": "skip", "max_rejects": 40}))


def max_rejects_one_too_few(folder: Path) -> Scene:
    return Scene(raw(folder, function=SOME_REJECTED, run={"on_reject": "dead-letter", "max_rejects": 39}), code=3)


def max_reject_share_just_enough(folder: Path) -> Scene:
    return Scene(raw(folder, function=SOME_REJECTED, run={"on_reject": "skip", "max_reject_share": 0.01}))


def max_reject_share_too_small(folder: Path) -> Scene:
    return Scene(raw(folder, function=SOME_REJECTED, run={"on_reject": "skip", "max_reject_share": 0.0099}), code=3)


def function_is_random(folder: Path) -> Scene:
    return Scene(raw(folder, function="return replace(record, value=random.randbytes(8))"), code=6)


def function_counts(folder: Path) -> Scene:
    return Scene(raw(folder, function="return replace(record, value=b'%d' % next(count))"), code=6)


def keys_collide(folder: Path) -> Scene:
    return Scene(raw(folder, function="return replace(record, key=record.key[:-1])"), code=3)


def keys_collide_at_one_place(folder: Path) -> Scene:
    body = "return replace(record, key=b'key-00002000') if record.key == b'key-00001999' else record"
    return Scene(raw(folder, function=body), code=3)


def keys_descend(folder: Path) -> Scene:
    return Scene(raw(folder, function="return replace(record, key=b'%08d' % (9999 - int(record.key[4:])))"), code=3)


def keys_jump_from_chunk_to_chunk(folder: Path) -> Scene:
    """Each chunk alone is in order."""
    body = "number = int(record.key[4:])\nhead = b'ba'[number >= 2000 :][:1]\n"
    body += "return replace(record, key=head + b'%08d' % number)"
    return Scene(raw(folder, function=body), code=3)


def key_changes_its_task(folder: Path) -> Scene:
    (folder / "conversion.py").write_text(
        "from dataclasses import replace\ndef convert(r):\n    return replace(r, key=r.key + b'!')\n"
    )
    conversion = {"function": "conversion:convert", "allow": ["changelog", "unclean-source"]}
    return Scene(application(folder, conversion=conversion), code=6)


def an_empty_store(folder: Path) -> Scene:
    make_store(folder / "state", {})
    return Scene(raw(folder))


def only_a_log(folder: Path) -> Scene:
    make_store(folder / "state", numbered(500), flush=False)
    return Scene(raw(folder))


def another_run(folder: Path) -> Scene:
    spec = stopped_at("chunk.committed", raw(folder))
    return Scene(spec, one_run_at_a_time(spec.home), code=6)


def a_run_has_begun(folder: Path) -> Scene:
    return Scene(stopped_at("chunk.committed", raw(folder)))


def a_run_has_begun_and_the_source_changed(folder: Path) -> Scene:
    spec = stopped_at("chunk.committed", raw(folder))
    with open_store(spec.source_path) as database:
        database[b"late"] = b"late"
    return Scene(spec, code=6)


def a_run_has_begun_and_the_spec_changed(folder: Path) -> Scene:
    stopped_at("chunk.committed", raw(folder))
    return Scene(raw(folder, function="return record"), code=6)


def a_run_has_begun_with_other_chunks(folder: Path) -> Scene:
    stopped_at("chunk.committed", raw(folder))
    return Scene(raw(folder, run={"chunk_size": 20_000}))


def a_run_was_verified(folder: Path) -> Scene:
    spec = in_place_spec(folder, make_application(folder))
    migrate.run(spec)
    return Scene(spec)


def published(folder: Path) -> Scene:
    spec = raw(folder)
    migrate.run(spec)
    return Scene(spec)


def published_and_gone(folder: Path) -> Scene:
    spec = raw(folder)
    migrate.run(spec)
    shutil.rmtree(folder / "new")
    return Scene(spec, code=6)


def a_cutover_is_half_done(folder: Path) -> Scene:
    spec = in_place_spec(folder, make_application(folder))
    migrate.run(spec)
    with pytest.raises(StoppedError):
        migrate.cutover(spec, on_event=StopAt("cutover.exchanged"))
    return Scene(spec, code=6)


def cut_over(folder: Path) -> Scene:
    spec = in_place_spec(folder, make_application(folder))
    migrate.run(spec)
    migrate.cutover(spec)
    return Scene(spec)


def a_snapshot_was_taken(folder: Path) -> Scene:
    spec = in_place_spec(folder, make_application(folder), run={"source": "snapshot"})
    migrate.snapshot(spec)
    return Scene(spec)


def a_torn_ledger(folder: Path) -> Scene:
    """As a power cut leaves it: a run repairs it."""
    spec = stopped_at("chunk.committed", raw(folder))
    max((spec.home / "ledger" / "_delta_log").glob("*.json")).write_bytes(b"")
    return Scene(spec)


def stopped_at(event: str, spec: Spec) -> Spec:
    with pytest.raises(StoppedError):
        migrate.run(spec, on_event=StopAt(event))
    return spec


SCENES: list[Arrange] = [
    nothing_wrong, an_application, missing_manifest, missing_current, truncated_sst, missing_sst, damaged_block,
    damaged_first_block, no_options_file, wrong_format, loss_not_allowed, changelog_not_allowed, no_such_store,
    target_exists, target_inside_the_source, work_dir_inside_the_source, work_dir_with_a_percent_sign,
    work_dir_is_a_file, foreign_file, function_drops_and_rejects, function_rejects, function_exits,
    function_rejects_all, function_rejects_one_of_two_families, max_rejects_just_enough, max_rejects_one_too_few,
    max_reject_share_just_enough, max_reject_share_too_small, function_is_random, function_counts, keys_collide,
    keys_collide_at_one_place, keys_descend, keys_jump_from_chunk_to_chunk, key_changes_its_task, an_empty_store,
    only_a_log, another_run, a_run_has_begun, a_run_has_begun_and_the_source_changed,
    a_run_has_begun_and_the_spec_changed, a_run_has_begun_with_other_chunks, a_run_was_verified, published,
    published_and_gone, a_cutover_is_half_done, cut_over, a_snapshot_was_taken, a_torn_ledger]  # fmt: skip
