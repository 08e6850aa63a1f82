"""Generates docs/cli.md, docs/json.md, docs/api.md and migrate/__init__.pyi from the code, for `make docs-cli`."""

import inspect
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import click

import migrate
from migrate.cli.job import main as job
from migrate.cli.main import main
from migrate.cli.options import common_options
from migrate.errors import ExitCode
from tests.cli.api_reference import api_page
from tests.cli.check_names import all_checks
from tests.cli.json_reference import json_page

DOCS = Path(__file__).parents[2] / "docs"
STUB = DOCS.parent / "migrate/__init__.pyi"
MADE = "<!-- Made from the code by `make docs-cli`. Change the code, not this page. -->"
CODES = {
    ExitCode.DONE: "done",
    ExitCode.BUG: "a bug: please report it with the traceback on standard error",
    ExitCode.USAGE: "the command line or the spec is not valid",
    ExitCode.FAILED: "a chunk failed, or too many records were rejected: fix the cause and run the same command again",
    ExitCode.MISMATCH: "verification found a difference: nothing was published or cut over",
    ExitCode.INTERRUPTED: "interrupted, or the time budget is used up: run the same command again to resume; of "
    "`sweep`: run the query, and sweep again",
    ExitCode.REFUSED: "refused before any data was changed: follow the line `next:`",
}
_STREAMS = """\
Reports go to standard output, everything else to standard error. With `--json` standard output holds one
JSON document and nothing else, even if the command fails ([json.md](json.md)). If both streams are the same (`2>&1`,
and always under spark-submit), only that document is printed. Colours and bars appear only on a terminal; otherwise
lines are at most `COLUMNS` wide, or 120."""
_ABOUT_CHECKS = """\
What `plan`, `doctor` and `run` check, with the names in their JSON documents. `run` stops at the first that fails;
`plan` and `doctor` make all checks and print a fix for each that fails. Only `doctor` makes the checks of Spark."""


@cache
def pages() -> dict[Path, str]:
    """The content of each file."""
    return {
        DOCS / "cli.md": cli_page(),
        DOCS / "json.md": f"{MADE}\n\n{json_page()}",
        DOCS / "api.md": f"{MADE}\n\n{api_page()}",
        STUB: stub(),
    }


def stub() -> str:
    """The exports as type checkers read them, in the order that ruff keeps."""
    homes = vars(migrate)["_HOME_OF"]
    ordered = sorted(homes, key=lambda name: (homes[name], name[0].islower(), name.lower()))
    lines = [f"from {homes[name]} import {name} as {name}" for name in ordered]
    rest = ["", "__all__: list[str]", "__version__: str", ""]
    return "\n".join(["# Made from __init__.py by `make docs-cli`.", *lines, *rest])


def cli_page() -> str:
    parts = [
        f"{MADE}\n\n# The commands\n\n{_lead(main)}",
        "`stateferry VERB --help` prints the same text. [operations.md](operations.md#the-spec) describes the spec.",
        _contents(),
        "## Options of every verb\n\nBefore the verb's name or after it.\n\n" + _options(common_options()),
        _STREAMS,
        *_verbs(),
        f"## spark-submit jobs/migrate_job.py\n\n{_body(job)}",
        "## Exit codes\n\nAn incomplete run never exits with 0.\n\n" + _exit_codes(),
        f"## Checks\n\n{_ABOUT_CHECKS}\n\n{_checks()}",
    ]
    return "\n\n".join(parts) + "\n"


def _contents() -> str:
    rows = ["| verb | does |", "|---|---|"]
    rows += [f"| [`{_call(name)}`](#stateferry-{name}) | {_sentence(verb)} |" for name, verb in main.commands.items()]
    return "\n".join(rows)


def _verbs() -> Iterator[str]:
    for title, verbs in main.sections.items():
        yield f"## {title}"
        for verb in verbs:
            yield f"### stateferry {verb.name}\n\n{_body(verb)}"


def _body(command: click.Command) -> str:
    common = {name for option in common_options() for name in option.opts}
    own = [option for option in command.params if isinstance(option, click.Option) and common.isdisjoint(option.opts)]
    parts = [_lead(command), f"```console\n{_examples(command)}\n```"]
    return "\n\n".join([*parts, _options(own)] if own else parts)


def _paragraphs(command: click.Command) -> list[str]:
    return inspect.cleandoc(command.help or "").split("\n\n")


def _lead(command: click.Command) -> str:
    lines = [" ".join(paragraph.split()) for paragraph in _paragraphs(command) if not paragraph.startswith("\b")]
    return "\n\n".join(lines)


def _examples(command: click.Command) -> str:
    blocks = [paragraph for paragraph in _paragraphs(command) if paragraph.startswith("\b")]
    return "\n".join(f"$ {line}" for block in blocks for line in block.splitlines()[1:])


def _sentence(command: click.Command) -> str:
    return " ".join(_paragraphs(command)[0].split())


def _call(name: str) -> str:
    parameters = [param for param in main.commands[name].params if isinstance(param, click.Argument)]
    arguments = [argument.make_metavar(click.Context(main)) for argument in parameters]
    return " ".join(["stateferry", name, *(text for text in arguments if text and not text.startswith("-"))])


def _options(options: Iterable[click.Option]) -> str:
    rows = ["| option | |", "|---|---|"]
    for option in options:
        takes = "" if option.is_flag or option.count else f" {option.make_metavar(click.Context(main))}"
        default = f" Default: `{option.default}`." if option.show_default else ""
        names = ", ".join(f"`{name}{takes}`" for name in option.opts)
        rows.append(f"| {names} | {option.help}{default} |".replace("[full|digest]", "full\\|digest"))
    return "\n".join(rows)


def _exit_codes() -> str:
    return "\n".join(["| code | meaning |", "|---|---|", *(f"| {int(code)} | {CODES[code]} |" for code in ExitCode)])


def _checks() -> str:
    return "\n".join(["| name | passes if |", "|---|---|", *(f"| `{n}` | {c} |" for n, c in all_checks())])


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
        print(path)
