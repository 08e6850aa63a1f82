"""The compiled and the reference path are held against each other on the sample: a difference is a bug, and said."""

from pathlib import Path

import pytest

from formats import Conversion
from formats.program import ByteProgram, Copy, Insert, Operation, Skip
from tests.dry_run.support import failed, planned
from tests.support import copy_fixture, kafka_spec

RIGHT = Insert(b"\xff" * 8)
WRONG: dict[str, tuple[Operation, ...]] = {
    "another timestamp": (Insert(b"\x00" * 8), Copy(None)),
    "no timestamp": (Copy(None),),
    "a byte too few": (RIGHT, Skip(1), Copy(None)),
}


@pytest.mark.parametrize("full", [False, True], ids=["sample", "full"])
@pytest.mark.parametrize("value", WRONG.values(), ids=list(WRONG))
def test_a_wrong_program_is_reported_as_a_bug(
    value: tuple[Operation, ...], full: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = ByteProgram((Copy(None),), value)
    monkeypatch.setattr(Conversion, "program", property(lambda _: program))
    report = planned(kafka_spec(tmp_path, copy_fixture(tmp_path)), sample=50, full=full)
    assert report.tried.differences
    assert all("the two paths differ at the key" in difference for difference in report.tried.differences)
    assert (report.verdict.exit_code, report.verdict.go) == (1, False)
    assert report.verdict.sentence.startswith("no go: a bug of Stateferry's own")
    assert failed(report)["conversion.paths"].exit_code == 1


def test_a_wrong_key_is_a_difference_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = ByteProgram((Insert(b"!"), Copy(None)), (RIGHT, Copy(None)))
    monkeypatch.setattr(Conversion, "program", property(lambda _: program))
    assert planned(kafka_spec(tmp_path, copy_fixture(tmp_path)), sample=50).verdict.exit_code == 1


def test_the_right_program_agrees_on_every_record_of_the_sample(tmp_path: Path) -> None:
    report = planned(kafka_spec(tmp_path, copy_fixture(tmp_path)))
    assert report.tried.both_paths == report.tried.sampled > 0
    assert report.tried.differences == ()
    assert failed(report) == {}


def test_a_function_has_no_compiled_path_to_compare(tmp_path: Path) -> None:
    (tmp_path / "conversion.py").write_text("def convert(record):\n    return record\n")
    conversion = {"function": "conversion:convert", "allow": ["changelog", "unclean-source"]}
    report = planned(kafka_spec(tmp_path, copy_fixture(tmp_path), conversion=conversion))
    assert (report.tried.both_paths, report.tried.program) == (0, None)
