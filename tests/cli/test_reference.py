"""The pages of docs/ and the stub that are made from the code say what it does: `make docs-cli` writes them."""

from pathlib import Path

import pytest

import migrate
from migrate.batch.preflight.check import CheckReport
from migrate.batch.preflight.doctor import doctor
from migrate.cli.main import main
from migrate.errors import ExitCode
from tests.cli.api_reference import EXAMPLES
from tests.cli.check_names import all_checks
from tests.cli.json_reference import in_words, reports
from tests.cli.reference import CODES, DOCS, STUB, pages
from tests.support import copy_fixture, kafka_spec, make_store, raises, read_family


@pytest.mark.parametrize("page", [DOCS / "api.md", DOCS / "cli.md", DOCS / "json.md", STUB], ids=lambda page: page.name)
def test_the_reference_is_up_to_date(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == pages()[page], "run: make docs-cli"


def test_every_public_name_is_documented() -> None:
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    headings = ("\n### {}\n", "\n| `{}` | `", "\n| [{}](json.md#", "`{}` has the exit codes")
    assert [name for name in migrate.__all__ if not any(each.format(name) in page for each in headings)] == []


def test_the_examples_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "state").mkdir()
    copy_fixture(tmp_path / "state")
    make_store(tmp_path / "old.db", {b"a": b"x", b"b": b""})
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    for example in EXAMPLES.values():
        exec(example, names)
    out = capsys.readouterr().out
    assert "go: nothing stands in the way" in out
    assert "state: verified" in out
    assert "cut over" in out
    assert read_family(tmp_path / "new.db") == {b"a": b"X"}


@pytest.mark.parametrize("verb", sorted(main.commands))
def test_every_verb_has_its_examples_there(verb: str) -> None:
    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    section = page.partition(f"\n### stateferry {verb}\n")[2].partition("\n## ")[0]
    assert f"\n$ stateferry {verb} " in section or f"\n$ stateferry {verb}\n" in section


def test_every_exit_code_is_documented() -> None:
    assert CODES.keys() == set(ExitCode)


def test_every_check_of_a_report_is_documented(tmp_path: Path) -> None:
    claims = dict(all_checks())
    seen: list[CheckReport] = []
    for snapshot in ("live", "snapshot"):
        spec = kafka_spec(
            tmp_path / snapshot, copy_fixture(tmp_path / snapshot), run={"source": snapshot}, target={"path": None}
        )
        seen += doctor(spec).checks
    assert len(seen) > 40
    assert [check.name for check in seen if claims.get(check.name) != check.claim] == []


def test_every_report_that_is_printed_is_documented() -> None:
    page = (DOCS / "json.md").read_text(encoding="utf-8")
    assert len(reports()) > 8
    assert [report for report in reports() if f"\n### {report.__name__}\n" not in page] == []


def test_a_field_without_a_word_for_its_type_is_an_error() -> None:
    raises(KeyError, "", in_words, complex)
