"""What a later call trusts of an earlier one, and logs that lie where no one looks."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rocksdict import Options, Rdict

from migrate import RefusedError, RunReport, Spec, VerificationError, run, verify
from migrate.batch.identity import spec_identity, stable_json
from migrate.errors import SourceChangedError
from migrate.spec.conversion import conversion_ref
from tests.batch.switch.support import StopAt, StoppedError
from tests.shared.going_live import slot
from tests.support import (
    KEY_VALUE,
    kafka_spec,
    make_families,
    make_store,
    numbered,
    open_store,
    raises,
    raw_spec,
    read_delta,
    read_family,
    tree_state,
)


def changed(spec: Spec, **section: object) -> Spec:
    return spec.model_copy(
        update={name: getattr(spec, name).model_copy(update=update) for name, update in section.items()}
    )


def test_a_published_migration_is_not_done_again(tmp_path: Path) -> None:
    spec = raw_spec(tmp_path, make_store(tmp_path / "old", numbered(100)))
    first = run(spec)
    before = tree_state(tmp_path / "new")
    again = run(spec)
    assert (again.state, again.totals) == ("published", first.totals)
    assert tree_state(tmp_path / "new") == before


def test_a_source_that_changed_before_the_plan_was_stored_is_snapshot_again(tmp_path: Path) -> None:
    source = make_store(tmp_path / "old", numbered(100))
    spec = raw_spec(tmp_path, source)
    raises(StoppedError, "", run, spec, on_event=StopAt("snapshot.taken"))
    with open_store(source) as database:
        database[b"key-x"] = b"written meanwhile"
    run(spec)
    assert read_family(tmp_path / "new") == numbered(100) | {b"key-x": b"written meanwhile"}


def test_a_new_store_that_was_damaged_after_its_verification_is_not_published(tmp_path: Path) -> None:
    spec = raw_spec(tmp_path, make_store(tmp_path / "old", numbered(100)))
    raises(StoppedError, "", run, spec, on_event=StopAt("publish.started"))
    with open_store(slot(spec)) as database:
        database.delete(b"key-00000050")
    raises(VerificationError, "", run, spec)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("mode", ["full", "digest", "off"])
def test_every_way_of_verifying(mode: str, tmp_path: Path) -> None:
    source = make_store(tmp_path / "old", numbered(500))
    spec = raw_spec(tmp_path, source, run={"verify": mode, "chunk_size": "4 KiB"})
    report: RunReport = run(spec, unverified=mode == "off")
    assert report.verification.mode == mode
    assert report.verification.records == (0 if mode == "off" else 500)
    assert read_family(tmp_path / "new") == numbered(500)


@pytest.mark.parametrize(
    "difference",
    [
        {"conversion": {"default_timestamp_ms": 7}},
        {"target": {"path": Path("elsewhere")}},
        {"target": {"format": KEY_VALUE}},
        {"source": {"path": Path("another")}},
    ],
    ids=["default timestamp", "target path", "target format", "source"],
)
def test_a_finished_migration_does_not_answer_for_another(difference: dict[str, object], tmp_path: Path) -> None:
    spec = raw_spec(tmp_path, make_store(tmp_path / "old", numbered(50)))
    make_store(tmp_path / "another", numbered(50))
    run(spec)
    other = changed(spec, **difference)
    with pytest.raises(RefusedError):
        run(other)
    with pytest.raises(SourceChangedError):
        verify(other)


def test_a_version_is_part_of_what_the_migration_is_and_leaving_it_out_changes_nothing(tmp_path: Path) -> None:
    targets: list[dict[str, str]] = [{}, {"version": "4.3"}]
    without, named = (kafka_spec(tmp_path, tmp_path / "orders-app", target=target) for target in targets)
    target = '{"format":"kafka-streams.timestamped-key-value","path":"new/orders-app","stores":[]}'
    assert stable_json(without.target) == target
    before, after = (spec_identity(spec, conversion_ref(spec)) for spec in (without, named))
    assert {name for name in before if before[name] != after[name]} == {"[target]"}


@pytest.mark.parametrize("policy", ["dead-letter", "fail"])
def test_another_policy_for_rejects_holds_for_finished_chunks_too(policy: str, tmp_path: Path) -> None:
    (tmp_path / "picky.py").write_text(
        "def convert(record):\n"
        "    if record.key == b'key-00000007':\n        raise ValueError('unlucky')\n"
        "    return record\n"
    )
    source = make_store(tmp_path / "old", numbered(500))
    accepting = {"on_reject": "skip", "max_rejects": 1}
    spec = raw_spec(tmp_path, source, conversion={"function": "picky:convert"}, run=accepting)
    raises(StoppedError, "", run, spec, on_event=StopAt("assemble.started"))
    again = changed(spec, run={"on_reject": policy, "max_rejects": 1})
    if policy == "fail":
        with pytest.raises(Exception, match="key-00000007"):
            run(again)
        return
    report = run(again)
    assert report.dead_letters is not None
    assert [row["key"] for row in read_delta(report.dead_letters)] == [b"key-00000007"]
    assert report.totals.records_in == 500
    assert len(read_family(tmp_path / "new")) == 499


def test_a_family_too_many_or_a_filled_default_does_not_stand_the_verification(tmp_path: Path) -> None:
    source = make_store(tmp_path / "old", numbered(50))
    target = {"format": "kafka-streams.timestamped-key-value"}
    damages: list[dict[str, dict[bytes, bytes]]] = [{"left-over": {}}, {"default": {b"key": b"value"}}]
    for number, damage in enumerate(damages):
        spec = raw_spec(
            tmp_path / str(number),
            shutil.copytree(source, tmp_path / str(number) / "old"),
            source={"format": KEY_VALUE},
            target=target,
        )
        raises(StoppedError, "", run, spec, on_event=StopAt("verify.started"))
        (new,) = (spec.home / "new").glob("*/old")
        make_families(new, damage)
        with pytest.raises(VerificationError, match=r"column families|content"):
            verify(spec)


def _log_named_in(source: Path, place: Path) -> None:
    """As RocksDB does up to 6.22, also where the place is the directory of the database itself."""
    newest = sorted(source.glob("OPTIONS-*"))[-1]
    newest.write_text(newest.read_text().replace("[DBOptions]", f"[DBOptions]\n  wal_dir={place}", 1))


@pytest.mark.parametrize("is_left_behind", [False, True])
def test_a_write_ahead_log_elsewhere_is_refused(tmp_path: Path, *, is_left_behind: bool) -> None:
    source, elsewhere = make_store(tmp_path / "old", numbered(50)), tmp_path / "elsewhere"
    _log_named_in(source, elsewhere)
    elsewhere.mkdir()
    (log,) = source.glob("*.log")
    log.rename(elsewhere / "000100.log")
    if is_left_behind:
        log.touch()
    with pytest.raises(RefusedError, match=r"write-ahead log in another directory, .*/elsewhere"):
        run(raw_spec(tmp_path, source))


@pytest.mark.parametrize("is_there", [True, False])
def test_a_log_of_an_earlier_opening_is_not_taken_for_one_elsewhere(tmp_path: Path, *, is_there: bool) -> None:
    source, elsewhere = make_store(tmp_path / "old", numbered(50)), tmp_path / "elsewhere"
    elsewhere.mkdir()
    write_and_be_killed = (
        "import os, sys; from rocksdict import Options, Rdict; options = Options(raw_mode=True); "
        "options.set_wal_dir(sys.argv[2]); store = Rdict(sys.argv[1], options=options); store[b'in the log'] = b'1'; "
        "store.flush_wal(True); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", write_and_be_killed, source, elsewhere], check=True, timeout=120)
    assert list(source.glob("*.log"))
    (log,) = elsewhere.glob("*.log")
    if not is_there:
        elsewhere = elsewhere.rename(tmp_path / "unmounted")
    with pytest.raises(RefusedError, match="write-ahead log in another directory") as refused:
        run(raw_spec(tmp_path, source))
    assert (", which is not there" in refused.value.message) is not is_there
    assert "move the *.log files" in (refused.value.hint or "")
    shutil.move(elsewhere / log.name, source)
    options = Options(raw_mode=True)
    options.set_wal_dir(str(source))
    Rdict(str(source), options=options).close()
    run(raw_spec(tmp_path, source))
    assert read_family(tmp_path / "new") == {**dict(numbered(50)), b"in the log": b"1"}


@pytest.mark.parametrize("place", ["old", "moved", "gone"])
def test_a_write_ahead_log_in_the_directory_itself_is_found_wherever_that_was(place: str, tmp_path: Path) -> None:
    source = make_store(tmp_path / "old", numbered(50))
    _log_named_in(source, tmp_path / place)
    if place == "moved":
        shutil.copytree(source, tmp_path / place)
    assert run(raw_spec(tmp_path, source)).state == "published"
