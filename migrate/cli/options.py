"""The options of every verb, given before its name or after it, and what they come to."""

from __future__ import annotations

from typing import Any

import click

from migrate.show.output import Output

_META = "stateferry.options"


spec_argument = click.argument("spec", type=click.Path())
html_option = click.option(
    "--html", "page", type=click.Path(), help="Write a page, in one file, that needs no network."
)


def _note(context: click.Context, parameter: click.Parameter, value: Any) -> None:  # noqa: ANN401 - click's own
    """Options before the verb and after it add up."""
    assert parameter.name is not None
    noted: dict[str, int] = context.meta.setdefault(_META, {})
    noted[parameter.name] = noted.get(parameter.name, 0) + int(value)


def _flag(*names: str, help_: str, count: bool = False) -> click.Option:
    kind = {"count": True} if count else {"is_flag": True}
    return click.Option(names, **kind, expose_value=False, callback=_note, help=help_)


def common_options() -> list[click.Option]:
    """New ones: click keeps state in them."""
    return [
        _flag("--json", "as_json", help_="Print one JSON document, errors too, and nothing else."),
        _flag("--quiet", "-q", "quiet", help_="Show no progress."),
        _flag("--verbose", "-v", "verbose", help_="Say more: every event of a run, what each check saw.", count=True),
        _flag("--no-color", "no_color", help_="Print no colours; so does the environment variable NO_COLOR."),
        _flag("--debug", "debug", help_="Show the traceback of an error."),
    ]


def add_common_options(command: click.Command) -> None:
    """Give a command those that it has not got."""
    taken = {name for option in command.params for name in option.opts}
    command.params += [option for option in common_options() if taken.isdisjoint(option.opts)]


def current_output() -> Output:
    """As the options of the command that runs say."""
    context = click.get_current_context(silent=True)
    if context is None:
        return Output()
    noted = context.meta.get(_META, {})
    flags = {name: bool(noted.get(name)) for name in ("as_json", "quiet", "no_color", "debug")}
    return Output(verbosity=noted.get("verbose", 0), **flags)
