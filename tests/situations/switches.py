"""Refusals of the verbs of a switch, before any store is moved."""

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from migrate import ExitCode, RefusedError, Spec, abandon, cutover, finalize, rollback, run, snapshot, verify
from tests.batch.switch.support import (
    DATA,
    FIRST,
    FROM_SNAPSHOT,
    Application,
    StopAt,
    StoppedError,
    in_place_spec,
    write_to,
)
from tests.shared.locks import LOCK_FILE, OPEN_STORE, another_process
from tests.situations.situation import REFUSED, USAGE
from tests.support import KEY_VALUE, RAW, TIMESTAMPED, make_spec, make_store, numbered, raises

Verb = Callable[[Spec], object]
Do = Callable[[Application], object]


def nothing(_: Application) -> None:
    """Changes nothing on the disk."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Each verb ends with `code`, these words and a next step; stores and ledger stay as they are."""

    name: str
    base: str
    """The fixture: "fresh" (nothing has begun), "app" (verified), "later" (from a snapshot), "lone" (one directory)."""
    verbs: tuple[Verb, ...]
    said: str
    hint: str = ""
    do: Do = nothing
    """Changes of the disk, and verbs that are run first."""
    spec: Callable[[Application], Spec] | None = None
    """The spec for the verbs, where it differs."""
    around: Callable[[Application], AbstractContextManager[object]] = lambda _: nullcontext()
    code: ExitCode = REFUSED
    then: Do = nothing
    """Checks that the verb succeeds once the cause is gone."""


def spec(**sections: object) -> Callable[[Application], Spec]:
    """A migration of the same stores, in place."""
    return lambda app: in_place_spec(app.base, app.path, **sections)


def ran(*verbs: Callable[..., object], then: Do = nothing) -> Do:
    """Run these verbs to their end."""

    def do(app: Application) -> None:
        for verb in verbs:
            verb(app.spec)
        then(app)

    return do


def stopped(at: str, verb: Callable[..., object] = run) -> Do:
    """Run the verb until this event, then stop as if killed."""

    def do(app: Application) -> None:
        with pytest.raises(StoppedError):
            verb(app.spec, on_event=StopAt(at))

    return do


def goes_on(*verbs: Callable[..., object]) -> Do:
    """Check that these verbs succeed now, the last one with a switch."""

    def do(app: Application) -> None:
        for verb in verbs:
            state = getattr(verb(app.spec), "state", "")
        assert state == {cutover: "cut over", rollback: "rolled back", run: "verified"}[verbs[-1]]

    return do


def linked(app: Application) -> None:
    elsewhere = app.live(FIRST).rename(app.base / "elsewhere")
    app.live(FIRST).symlink_to(elsewhere)


def foreign(name: str, app: Application) -> None:
    theirs = app.path / name
    theirs.parent.mkdir(exist_ok=True)
    theirs.write_text("theirs")


def copied(app: Application) -> Spec:
    return in_place_spec(app.base, Path(shutil.copytree(app.path, app.base / "other")))


def old_store_damaged(app: Application) -> None:
    for file in app.shelved("0_1/orders").glob("*.sst"):
        file.unlink()


def put_back_by_hand(app: Application) -> None:
    shutil.rmtree(app.live(FIRST))
    shutil.copytree(app.shelved(FIRST), app.live(FIRST))


def lost(path: str, app: Application) -> None:
    """Kafka Streams removes the directory of a task that moved elsewhere."""
    shutil.rmtree(app.path / path)


def written(app: Application) -> None:
    write_to(app.live(FIRST), family=DATA)


def made_again(app: Application) -> None:
    """Only on request are new writes discarded; the new store is then assembled again."""
    comes_back(app)
    assert "stateferry run" in raises(RefusedError, "not complete", cutover, app.spec).hint
    goes_on(run, cutover)(app)
    assert app.standing() == {"new"}


def away(app: Application) -> None:
    app.shelved(FIRST).rename(app.base / "elsewhere")


def brought_back(app: Application) -> None:
    (app.base / "elsewhere").rename(app.shelved(FIRST))
    goes_on(rollback)(app)


def unmounted(app: Application) -> None:
    app.path.rename(app.base / "volume")
    app.path.mkdir()


def mounted(app: Application) -> None:
    app.path.rmdir()
    (app.base / "volume").rename(app.path)
    goes_on(rollback)(app)


def comes_back(app: Application) -> None:
    assert rollback(app.spec, discard_new_writes=True).state == "rolled back"
    assert app.which("0_1/orders") == "old"
    assert app.offset("0_1/orders") is not None


def still_there(file: str, app: Application) -> None:
    assert (app.base / file).exists()


def journal_alone(app: Application) -> None:
    """A rollback needs nothing else."""
    cutover(app.spec)
    assert rollback(spec(conversion={"default_timestamp_ms": 7})(app)).state == "rolled back"


def run_again(spec: Spec) -> object:
    """Under another name."""
    return run(spec.model_copy(update={"name": "another"}))


def discarding(spec: Spec) -> object:
    return rollback(spec, discard_new_writes=True)


def staged_removed(app: Application) -> None:
    shutil.rmtree(app.staged(FIRST))
    goes_on(run, cutover)(app)


def holding(file: str) -> Callable[[Application], AbstractContextManager[object]]:
    return lambda app: another_process(LOCK_FILE, app.path / file)


def named_like(work_dir: str) -> Callable[[Application], Spec]:
    """Its folder would hold the application."""
    return lambda app: in_place_spec(app.base, app.path, work_dir=work_dir, name=app.path.name)


def converting(source: str, target: str, **conversion: object) -> Callable[[Application], Spec]:
    """What the changelog does not follow."""

    def make(app: Application) -> Spec:
        is_raw = source == RAW
        sections: dict[str, Any] = {"source": {} if is_raw else {"store": "orders"}, "target": {"path": None}}
        conversion.setdefault("allow", ["changelog"])
        path = app.live(FIRST) if is_raw else app.path
        sections |= {"conversion": conversion, **FROM_SNAPSHOT}
        return make_spec(app.base, path, source_format=source, target_format=target, **sections)

    return make


def alone(source: str, target: str) -> Callable[[Application], Spec]:
    """One directory."""

    def make(app: Application) -> Spec:
        path = make_store(app.base / "state", numbered(10))
        sections: dict[str, Any] = {"target": {"path": None}, **FROM_SNAPSHOT}
        return make_spec(app.base, path, source_format=source, target_format=target, **sections)

    return make


def publishing(source: str, target: str) -> Callable[[Application], Spec]:
    return lambda app: make_spec(app.base, app.path, source_format=source, target_format=target)


def line_lost(checkpoint: Path) -> None:
    lines = [line for line in checkpoint.read_text().splitlines() if "-orders-" not in line]
    checkpoint.write_text("\n".join([lines[0], str(len(lines) - 2), *lines[2:], ""]))


def line_unknown(checkpoint: Path) -> None:
    checkpoint.write_text(checkpoint.read_text().replace("orders-changelog 1 2365", "orders-changelog 1 -4"))


def checkpoint(spoil: Callable[[Path], None]) -> Do:
    """Of one task."""
    return lambda app: spoil(app.checkpoint("0_1"))


def earlier(app: Application) -> None:
    """The changelog was made again: it begins at 0."""
    file = app.checkpoint("0_0")
    text = file.read_text()
    assert app.offset("0_0/refunds") is not None
    file.write_text(text.replace(f"refunds-changelog 0 {app.offset('0_0/refunds')}", "refunds-changelog 0 5"))


def snapshot_written(pattern: str, app: Application) -> None:
    app = replace(app, spec=later_spec(app))
    snapshot(app.spec)
    stopped("plan.stored")(app)
    taken = app.spec.home / "snapshot" / FIRST
    if pattern == "*.sst":  # the file that is linked is changed in the live directory too, where nobody looks
        with next(taken.glob(pattern)).open("ab") as file:
            file.write(b"more")
    else:
        write_to(taken)


SWITCH = (cutover, rollback, finalize)
RUN = "stateferry run"
LINK = "is a symbolic link, which cannot be exchanged"
IS_GONE = "are not where the cut-over put them"
later_spec = spec(**FROM_SNAPSHOT)
LOCKS = (".lock", "0_1/rocksdb/refunds/LOCK")
HELD = "is held by process"
REFUSALS = [
    Refusal("nothing has begun", "fresh", SWITCH, "has not begun", RUN),
    *(Refusal(f"a run was stopped at {point}", "fresh", (cutover,), said, RUN, do=stopped(point),
              then=goes_on(run, cutover))
      for point, said in (("plan.stored", "not complete"), ("assemble.ingested", "not complete"),
                          ("verify.started", "not verified"))),
    Refusal("a run was stopped at chunk.committed", "fresh", SWITCH, "not complete|nothing of|is not cut over",
            do=stopped("chunk.committed")),
    *(Refusal(f"the application holds {file}", "app", (cutover,), f"{file} {HELD}", "stop the application",
              around=holding(file), then=goes_on(cutover)) for file in LOCKS),
    *(Refusal(f"the new version holds {file}", "app", (rollback, discarding), f"{file} {HELD}", around=holding(file),
              do=ran(cutover), then=goes_on(rollback)) for file in LOCKS),
    Refusal("somebody has a new store open", "app", (cutover,), HELD,
            around=lambda app: another_process(OPEN_STORE, app.staged(FIRST))),
    Refusal("a source that was written to since the run", "app", (cutover,),
            "0_0/orders was written to since it was converted", do=lambda app: write_to(app.live(FIRST))),
    Refusal("a new store that was written to", "app", (cutover,), "was written to since it was assembled",
            "remove that directory", do=lambda app: write_to(app.staged(FIRST), family=DATA), then=staged_removed),
    Refusal("a new store that is gone", "app", (cutover,), "not complete",
            do=lambda app: shutil.rmtree(app.staged(FIRST))),
    Refusal("a live store that is a link", "app", (cutover,), LINK, do=linked),
    Refusal("a store that is a link", "fresh", (run,), LINK, do=linked),
    *(Refusal(f"what is not RocksDB's, {name}", "lone", (cutover, run_again),
              "which is not RocksDB's", "move it elsewhere", do=partial(foreign, name))
      for name in ("notes.txt", "nested/CURRENT")),
    *(Refusal(f"a migration that publishes, from {source}", "lone", (cutover, rollback),
              r"publishes a new state directory, \[target\] path", "configure the application to use",
              spec=publishing(source, target), code=USAGE)
      for source, target in ((RAW, RAW), (KEY_VALUE, TIMESTAMPED))),
    Refusal("nothing was cut over", "app", (rollback,), "nothing of 'test' was cut over"),
    Refusal("finalized", "app", (rollback,), "the old stores are gone", do=ran(cutover, finalize)),
    Refusal("another spec", "app", (cutover,), "changed since: .conversion.",
            spec=spec(conversion={"default_timestamp_ms": 7}), then=journal_alone),
    *(Refusal(f"a folder that would hold the application, {work_dir}", "fresh", (run, abandon, finalize),
              "lies inside the migration's own folder", spec=named_like(work_dir))
      for work_dir in (".", "orders-app/..")),
    Refusal("another source", "app", (rollback, finalize), r"\[source\] is not what was cut over", do=ran(cutover),
            spec=copied),
    Refusal("new writes", "app", (rollback,), r"1 of 4 new stores were written to since the cut-over \(0_0/orders\)",
            "--discard-new-writes", do=ran(cutover, then=written), then=made_again),
    Refusal("new writes to a lone directory", "lone", (rollback,), "1 of 1 new stores were written to",
            "--discard-new-writes", do=ran(cutover, then=lambda app: write_to(app.path))),
    Refusal("an old store that is missing", "app", (rollback,), "is neither in", do=ran(cutover, then=away),
            then=brought_back),
    Refusal("a volume that is not mounted", "app", (rollback, finalize),
            "4 of 4 new stores are not where the cut-over put them|no new store is seen", "volume",
            do=ran(cutover, then=unmounted), then=mounted),
    Refusal("a damaged old store", "app", (discarding,), "is not as it was at the cut-over, or cannot be read",
            do=ran(cutover, then=old_store_damaged)),
    Refusal("a state directory that is not there", "app", (finalize,), "is not there",
            do=ran(cutover, then=lambda app: app.path.rename(app.base / "unmounted")),
            then=partial(still_there, "work/test/old/0_0/orders/CURRENT")),
    Refusal("an old store in use again", "app", (finalize,), "holds the old store: it was put back",
            do=ran(cutover, then=put_back_by_hand)),
    *(Refusal(f"the application has removed {path}", "app", (rollback,), IS_GONE, then=comes_back,
              do=ran(cutover, then=partial(lost, path))) for path in ("0_1", "0_1/rocksdb", "0_1/rocksdb/orders")),
    Refusal("what is not rewritten yet", "fresh", (verify,), "not rewritten yet", RUN, do=stopped("plan.stored")),
    Refusal("a half-done cut-over", "app", (verify,), "cannot be verified: it is half way: cutting over",
            do=stopped("cutover.exchanged", cutover)),
    Refusal("without a snapshot", "fresh", (run,), "there is no snapshot", "stateferry snapshot", spec=later_spec),
    Refusal("a snapshot for the live directory", "fresh", (snapshot,), "converts the live directory", code=USAGE),
    *(Refusal(f"a snapshot for {what}", "fresh", (snapshot, run),
              "while the application goes on|cannot be migrated|no snapshot", spec=make)
      for what, make in {
          "a function": converting(KEY_VALUE, TIMESTAMPED, function="tests.shared.conversions:shout"),
          "what becomes raw": converting(KEY_VALUE, RAW), "what was raw": converting(RAW, TIMESTAMPED)}.items()),
    *(Refusal(f"a snapshot of a directory without a changelog, {source}", "fresh", (snapshot,), "changelog",
              spec=alone(source, target)) for source, target in ((RAW, RAW), (KEY_VALUE, TIMESTAMPED))),
    *(Refusal(f"an unknown position, {what}", "fresh", (snapshot,), f"0_1/orders: .*{said}", "stop it cleanly",
              do=checkpoint(spoil), spec=later_spec)
      for what, spoil, said in (("no file", Path.unlink, "has no line for it"),
                                ("no line", line_lost, "has no line for it"),
                                ("minus four", line_unknown, "its position is unknown"))),
    Refusal("a snapshot while the application runs", "fresh", (snapshot,), HELD, around=holding(".lock"),
            spec=later_spec),
    *(Refusal(f"a snapshot that was written to, {pattern}", "fresh", (run, cutover),
              "not as copied|cannot open|not complete", do=partial(snapshot_written, pattern), spec=later_spec)
      for pattern in ("*.sst", "MANIFEST-*")),
    Refusal("a snapshot that was written to after the run", "later", (cutover,),
            "snapshot/0_0/orders is damaged: its files are not as copied",
            do=lambda app: write_to(app.spec.home / "snapshot" / FIRST)),
    Refusal("tasks that came since", "later", (cutover,), "were added or removed since: 0_2/orders, 0_2/refunds",
            "stateferry abandon", do=lambda app: shutil.copytree(app.path / "0_1", app.path / "0_2")),
    Refusal("tasks that went since", "later", (cutover,), "were added or removed since: 0_1/orders, 0_1/refunds",
            "stateferry abandon", do=partial(lost, "0_1")),
    Refusal("the snapshot of a run", "app", (cutover, run), "was taken by a run, only for itself", spec=later_spec),
    Refusal("a changelog that was made again", "later", (cutover,),
            "at an earlier changelog position than its snapshot", do=earlier),
]  # fmt: skip
