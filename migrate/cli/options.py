"""The options of every verb, given before its name or after it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from migrate.errors import SpecError
from migrate.show.output import Output

_META = "stateferry.options"
_GIVEN_UP_BY_HAND = (
    *("--unverified", "--accept-", "--discard-new-writes", "--delete-topic", "--fence", "--yes"),
    *("--moved-away", "--no-checksums", "--changelog-end"),
)
"""Options that accept a loss, or are true at one moment only: never left behind in an environment."""
spec_argument = click.argument("spec", type=click.Path())
html_option = click.option("--html", "page", type=click.Path(), help="Also write the report as one HTML file.")


def page_path(name: str | None) -> Path | None:
    """Return the path of --html, before the work whose report goes there. Raises SpecError if it cannot be written."""
    if name is None:
        return None
    path = Path(name).expanduser().absolute()
    if path.is_dir():
        raise SpecError(f"--html {path} is a directory", hint="name a file in it, like report.html")
    if not path.parent.is_dir():
        raise SpecError(f"--html {path}: there is no directory {path.parent}", hint="create it, or name another one")
    if not os.access(path.parent, os.W_OK):
        raise SpecError(f"--html {path}: cannot write to {path.parent}", hint="name a file elsewhere")
    return path


def _record(context: click.Context, parameter: click.Parameter, value: Any) -> None:  # noqa: ANN401 - click's own
    """Record an option; those before the verb and after it add up."""
    assert parameter.name is not None
    given: dict[str, int] = context.meta.setdefault(_META, {})
    given[parameter.name] = given.get(parameter.name, 0) + int(value)


def _flag(*names: str, help_: str, count: bool = False) -> click.Option:
    kind = {"count": True} if count else {"is_flag": True}
    return click.Option(names, **kind, expose_value=False, callback=_record, help=help_)


def _record_format(context: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.meta.setdefault(_META, {})["json_log"] = int(value == "json")


def common_options() -> list[click.Option]:
    """Return new options for one command: click keeps state in them."""
    return [
        _flag("--json", "as_json", help_="Print the report, or the error, as one JSON document."),
        _flag("--quiet", "-q", "quiet", help_="Show no progress."),
        _flag(
            "--verbose",
            "-v",
            "verbose",
            help_="Show more detail: every event of a run, every result of a check, Spark's warnings (-vv: its log).",
            count=True,
        ),
        _flag("--no-color", "no_color", help_="Print no colours, like the environment variable NO_COLOR."),
        click.Option(
            ["--log-format"],
            type=click.Choice(["text", "json"]),
            expose_value=False,
            callback=_record_format,
            help="json: each line of the log, and an error, is a JSON object on standard error. [default: text]",
        ),
        _flag("--debug", "debug", help_="Show the traceback of an error."),
    ]


def complete_formats(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """For a shell: the formats whose ids begin so."""
    from formats import FORMATS

    return [known.id for known in FORMATS if known.id.startswith(incomplete)]


def read_environment(verb: click.Command) -> None:
    """Let the environment give a verb's options, as STATEFERRY_VERB_OPTION, but none that gives a protection up."""
    for option in verb.params:
        name = max(option.opts, key=len)
        if isinstance(option, click.Option) and not name.startswith(_GIVEN_UP_BY_HAND):
            option.envvar = f"STATEFERRY_{verb.name}_{name.lstrip('-')}".upper().replace("-", "_")


def add_common_options(command: click.Command) -> None:
    """Add the options that the command does not have."""
    taken = {name for option in command.params for name in option.opts}
    command.params += [option for option in common_options() if taken.isdisjoint(option.opts)]


def current_output() -> Output:
    """Return the output that the options of the running command ask for."""
    context = click.get_current_context(silent=True)
    if context is None:
        return Output()
    given = context.meta.get(_META, {})
    flags = {name: bool(given.get(name)) for name in ("as_json", "quiet", "no_color", "debug", "json_log")}
    spec = context.params.get("spec") or context.params.get("spec_path") or ""
    return Output(verbosity=given.get("verbose", 0), spec=spec, **flags)
