"""What an application that did not stop cleanly leaves behind, and what a migration makes of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rocksdict import Options, Rdict

from migrate import RefusedError, Spec, cutover, doctor, plan, run
from migrate.batch.home import load_plan
from migrate.cli.main import main
from migrate.errors import ExitCode
from migrate.model.events import Event
from migrate.systems.checkpoint_file import read_checkpoint
from tests.batch.switch.support import StopAt, StoppedError
from tests.support import KEY_VALUE, TIMESTAMPED, copy_fixture, kafka_spec, raises, spec_file

Damage = Callable[[Path], None]


def missing_checkpoint(app: Path) -> None:
    (app / "0_1/.checkpoint").unlink()


def with_unknown_offset(app: Path) -> None:
    checkpoint = app / "0_1/.checkpoint"
    *head, last = checkpoint.read_text().splitlines()
    checkpoint.write_text("\n".join([*head, " ".join([*last.split()[:2], "-4"])]) + "\n")


def with_status_open(app: Path) -> None:
    directory = str(app / "0_1/rocksdb/orders")
    options = Options(raw_mode=True)
    options.create_missing_column_families(True)
    store = Rdict(directory, options, column_families={"default": options, "offsets": options})
    store.get_column_family("offsets")[b"status"] = (1).to_bytes(8, "big")
    store.close()


def spec_in(folder: Path, **conversion: object) -> Spec:
    return kafka_spec(folder, folder / "orders-app", source={"store": "orders"}, conversion=conversion)


CASES = [(missing_checkpoint, "did not stop cleanly"), (with_unknown_offset, "unknown"), (with_status_open, "status")]


@pytest.mark.parametrize(("damage", "said"), CASES)
def test_it_is_reported_and_carried_unchanged(damage: Damage, said: str, tmp_path: Path) -> None:
    damage(copy_fixture(tmp_path))
    report = run(spec_in(tmp_path))
    (warning,) = report.warnings
    assert "0_1" in warning
    assert said in warning
    old, new = tmp_path / "orders-app/0_1/.checkpoint", tmp_path / "new/orders-app/0_1/.checkpoint"
    assert new.exists() == old.exists()
    assert not old.exists() or new.read_bytes() == old.read_bytes()


@pytest.mark.parametrize(("damage", "said"), CASES)
def test_it_is_refused_where_the_changelog_would_bring_old_records_back(damage: Damage, said: str, app: Path) -> None:
    damage(app)
    assert "unclean-source" in raises(RefusedError, said, run, upper_spec(app)).hint
    assert not (app.parent / "work").exists()
    assert run(upper_spec(app, "unclean-source")).state == "published"


# An application that was started again, processed records and was killed leaves the files of an earlier clean stop.

TOPIC = "orders-app-orders-changelog"
REFUSED = "only the broker knows whether the changelog ends there"


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "upper_case.py").write_text(
        "from dataclasses import replace\n\n"
        "def convert(record):\n    return replace(record, value=record.value.upper())\n"
    )
    return copy_fixture(tmp_path)


def upper_spec(app: Path, *allow: str, **sections: object) -> Spec:
    """A function changes values, which the changelog still holds in the old form."""
    conversion = {"function": "upper_case:convert", "allow": ["changelog", *allow]}
    spec = spec_in(app.parent, **conversion)
    return spec.model_copy(update=sections)


def in_place(spec: Spec) -> Spec:
    return spec.model_copy(update={"target": spec.target.model_copy(update={"path": None})})


def ends_of(app: Path) -> dict[str, int]:
    """What a consumer gets of each changelog, where nothing came after the store's position."""
    lines = [line for task in ("0_0", "0_1", "0_2") for line in read_checkpoint(app / task / ".checkpoint")]
    return {f"{topic}-{number}": offset + 1 for topic, number, offset in lines if topic == TOPIC}


def test_a_clean_stop_is_not_taken_for_the_end_of_a_changelog_that_no_longer_fits(app: Path) -> None:
    with pytest.raises(RefusedError, match=REFUSED) as refused:
        run(upper_spec(app))
    position = ends_of(app)[f"{TOPIC}-0"]
    assert f"position {position} of {TOPIC}-0, " in refused.value.message
    assert "--changelog-end TOPIC-PARTITION=N" in refused.value.hint
    assert "unclean-source" in refused.value.hint
    assert not (app.parent / "work").exists()
    (check,) = [check for check in plan(upper_spec(app)).checks if check.name == "source.clean"]
    assert (check.outcome, check.exit_code) == ("failed", 6)


@pytest.mark.parametrize("look", [plan, doctor])
def test_confirmed_ends_are_compared_with_the_stores(app: Path, look: Callable[..., Any]) -> None:
    assert run(upper_spec(app), changelog_ends=ends_of(app)).state == "published"
    checks = look(upper_spec(app, name="other"), changelog_ends=ends_of(app)).checks
    (check,) = [check for check in checks if check.name == "source.clean"]
    assert check.outcome == "ok"
    assert "every changelog ends where its store is" in check.detail


@pytest.mark.parametrize(
    ("more", "said", "hint"),
    [
        (3000, rf"{TOPIC}-1 ends at {{}}, and 0_1/orders is at", "stop it cleanly"),
        (-1, "is at .* already", "ask the broker again"),
    ],
    ids=["written since", "of before the stop"],
)
def test_an_end_that_is_not_the_store_s_position_is_refused(more: int, said: str, hint: str, app: Path) -> None:
    ends = ends_of(app)
    ends[f"{TOPIC}-1"] += more
    assert hint in raises(RefusedError, said.format(ends[f"{TOPIC}-1"]), run, upper_spec(app), changelog_ends=ends).hint


def test_every_changelog_has_to_be_confirmed_and_no_other(app: Path) -> None:
    ends = ends_of(app)
    left = ends.pop(f"{TOPIC}-1")
    with pytest.raises(RefusedError, match=rf"the files name position {left} of {TOPIC}-1; "):
        run(upper_spec(app), changelog_ends=ends)
    with pytest.raises(RefusedError, match="names order-1, which is not a changelog of these stores"):
        run(upper_spec(app), changelog_ends={**ends, "order-1": 1})


def test_a_plain_upgrade_asks_for_nothing(app: Path) -> None:
    (check,) = [check for check in plan(spec_in(app.parent)).checks if check.name == "source.clean"]
    assert check.outcome == "ok"
    assert "the changelog fits the new store" in check.detail


def test_a_run_that_stopped_is_resumed_without_asking_again(app: Path) -> None:
    with pytest.raises(StoppedError):
        run(upper_spec(app), changelog_ends=ends_of(app), on_event=StopAt("plan.stored"))
    assert run(upper_spec(app)).state == "published"


def test_allowing_it_on_the_way_begins_no_other_migration(app: Path) -> None:
    spec = in_place(upper_spec(app))
    run(spec, changelog_ends=ends_of(app))
    before = load_plan(spec.home)
    allowed = in_place(upper_spec(app, "unclean-source"))
    assert run(allowed).state == "verified"
    assert before is not None
    assert load_plan(spec.home) == before


def start_and_kill(app: Path) -> None:
    """What an application leaves that wrote to its changelog, and was killed before it flushed."""
    directory = str(app / "0_1/rocksdb/orders")
    Rdict(directory, Options(raw_mode=True)).close()
    Path(directory, "rocksdict-config.json").unlink()


def test_an_application_that_was_killed_after_the_run_keeps_the_store_from_being_cut_over(app: Path) -> None:
    spec = in_place(upper_spec(app))
    run(spec, changelog_ends=ends_of(app))
    start_and_kill(app)
    raises(RefusedError, "the old store was opened since it was converted", cutover, spec)
    raises(RefusedError, REFUSED, run, spec)
    run(spec, changelog_ends=ends_of(app))
    assert cutover(spec).state == "cut over"


def test_or_from_being_published(app: Path) -> None:
    def listen(event: Event) -> None:
        if event.name == "verify.committed":
            start_and_kill(app)

    with pytest.raises(RefusedError, match="the old store was opened since it was converted"):
        run(upper_spec(app), changelog_ends=ends_of(app), on_event=listen)
    assert not (app.parent / "new").exists()


@pytest.mark.parametrize("verb", ["plan", "doctor", "run"])
def test_the_command_takes_the_ends_of_the_broker(app: Path, verb: str) -> None:
    file = spec_file(
        app.parent / "migration.toml",
        source={"format": KEY_VALUE, "path": "orders-app", "store": "orders"},
        target={"format": TIMESTAMPED, "path": "new/orders-app"},
        conversion={"function": "upper_case:convert", "allow": ["changelog"]},
    )
    options = [] if verb == "plan" else ["--no-spark"]
    confirmed = [f"--changelog-end={name}={end}" for name, end in ends_of(app).items()]
    malformed = ["--changelog-end", f"{TOPIC}-0"]
    codes = [
        CliRunner().invoke(main, [verb, *options, *more, str(file)]).exit_code for more in ([], malformed, confirmed)
    ]
    assert codes == [ExitCode.REFUSED, ExitCode.USAGE, ExitCode.DONE]
