"""Paths of which delta-rs can make tables, and which it cannot; and what is in a table's place."""

from pathlib import Path

import pytest

from migrate import RefusedError, plan, report, run, status
from migrate.batch.home import DEAD_LETTERS, UNFINISHED_DEAD_LETTERS
from tests.support import make_store, numbered, raises, raw_spec, read_family

_PICKY = "def convert(record):\n    return record if record.value else record.missing\n"


@pytest.mark.parametrize("character", ["\\", "\n", "\t", "\x7f", "%", "[", "]", "^", "|"])
def test_a_work_dir_that_delta_rs_cannot_open_is_refused(character: str, tmp_path: Path) -> None:
    spec = raw_spec(tmp_path, make_store(tmp_path / "old", numbered(10)), work_dir=f"a{character}b/work")
    (failed,) = (check for check in plan(spec).checks if check.outcome == "failed")
    assert (failed.name, repr(character) in failed.detail) == ("work_dir.place", True)
    assert "choose another directory, or rename that one" in failed.fix
    raises(RefusedError, "with which delta-rs opens no table", run, spec)
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert status(spec).state == "not started"


def test_every_other_character_of_a_path_is_taken(tmp_path: Path) -> None:
    work_dir = " !\"#$&'()*+,-.:;<=>?@_`{}~é\N{LINE SEPARATOR}"
    records = numbered(10) | {b"odd": b""}
    (tmp_path / "picky.py").write_text(_PICKY)
    spec = raw_spec(
        tmp_path,
        make_store(tmp_path / "old", records),
        work_dir=work_dir,
        conversion={"function": "picky:convert"},
        run={"on_reject": "dead-letter", "max_rejects": 1},
    )
    run(spec)
    assert read_family(tmp_path / "new") == numbered(10)
    assert report(spec).dead_letters == tmp_path / work_dir / "test" / "dead-letters"


@pytest.mark.parametrize("name", [DEAD_LETTERS, UNFINISHED_DEAD_LETTERS])
@pytest.mark.parametrize("kind", ["symbolic link", "file"])
def test_what_is_no_directory_is_not_removed_for_the_dead_letters(name: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / "picky.py").write_text(_PICKY)
    spec = raw_spec(
        tmp_path,
        make_store(tmp_path / "old", numbered(3) | {b"odd": b""}),
        conversion={"function": "picky:convert"},
        run={"on_reject": "dead-letter", "max_rejects": 1},
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    def put_there(_: object) -> None:
        place = spec.home / name
        if place.exists() or not spec.home.exists():
            return
        if kind == "file":
            place.write_text("of somebody else")
        else:
            place.symlink_to(elsewhere)

    raises(RefusedError, f"{name} is a {kind}, in the place of a directory", run, spec, on_event=put_there)
    assert elsewhere.is_dir()
