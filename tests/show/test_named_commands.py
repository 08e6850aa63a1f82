"""Commands in reports: they name the real path of the spec, as a shell reads it, and can be copied."""

import html
import shlex
import sys
from pathlib import Path

import pytest

from migrate.cli.main import main
from migrate.show.output import Output
from migrate.show.plain import Layout
from tests.shared.commands import stateferry
from tests.support import make_store, numbered, spec_file


def test_the_pages_name_the_path_of_the_spec(tmp_path: Path) -> None:
    make_store(tmp_path / "old", numbered(10))
    spec, page = tmp_path / "my <spec>.toml", tmp_path / "page.html"
    spec_file(spec, target={"path": None})
    for verb in ("plan", "report"):
        assert stateferry(verb, spec, "--html", page).returncode == 0
        shown = html.unescape(page.read_text(encoding="utf-8"))
        assert f'<code class="command">stateferry run {shlex.quote(str(spec))}</code>' in shown
        assert "SPEC" not in shown


def test_without_pyspark_a_command_that_would_use_it_says_that_it_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    output = Output(spec="my m.toml")
    for verb, command in main.commands.items():
        uses_spark = {"--jobs", "--no-spark"} <= {name for option in command.params for name in option.opts}
        text, path = f"stateferry {verb} SPEC, then go", "'my m.toml'"
        assert output.named(text) == f"stateferry {verb} {path}, then go"
        with monkeypatch.context() as context:
            context.setitem(sys.modules, "pyspark", None)
            said = f"stateferry {verb} {path}{' --no-spark' if uses_spark else ''}, then go"
            assert output.named(text) == said
            assert output.named("stateferry run SPEC --no-spark") == f"stateferry run {path} --no-spark"
    assert output.named("stateferry run SPEC --no-spark") == f"stateferry run {path} --no-spark"


@pytest.mark.parametrize("spec", ["SPEC", "migration.toml", "'my specs/a b.toml'"])
def test_no_line_is_broken_within_a_command(spec: str) -> None:
    text = f"either stateferry rollback {spec} goes back, or stateferry cutover {spec} --accept-rejects 3 goes on"
    for width in range(20, 120):
        lines = Layout(width, has_colors=False).wrapped(text)
        assert " ".join(lines) == text
        for command in (f"stateferry rollback {spec}", f"stateferry cutover {spec} --accept-rejects 3"):
            assert any(command in line for line in lines)
