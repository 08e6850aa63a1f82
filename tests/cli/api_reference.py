"""Generates docs/api.md: every public name of `migrate`, with its signature, its parameters and its errors."""

import dataclasses
import enum
import inspect
import typing
from collections.abc import Callable, Iterable

from pydantic import BaseModel

import formats
import migrate
from migrate.cli.main import main
from migrate.model.events import DRY_RUN_EVENTS, EVENTS
from migrate.model.values import Value
from migrate.stores.state_store import OrderedStore, StateStore
from tests.cli.json_reference import own_docstrings
from tests.cli.signatures import (
    NOT_CONSTRUCTED,
    arguments_and_errors,
    in_code,
    parameters_of,
    result_of,
    signature,
    summary,
)

IN_FULL = ("DualReadStore.open",)
"""Methods that are described like functions."""
EXAMPLES = {
    "Run a migration": """
from migrate import MigrationError, Spec, cutover, plan, run

spec = Spec(
    name="orders-timestamped",
    work_dir="work",
    source={"format": "kafka-streams.key-value", "path": "state/orders-app", "store": "orders"},
    target={"format": "kafka-streams.timestamped-key-value"},
    conversion={"allow": ["unclean-source"]},  # the changelog ends where the stores do
)
print(plan(spec).verdict.sentence)
try:
    print(run(spec))
    cutover(spec)
except MigrationError as error:
    raise SystemExit(f"{error.message}; next: {error.hint}") from error
""",
    "Look at a migration or a directory": """
from migrate import inspect, report, status

for store in inspect("state/orders-app").stores:
    print(store.name, store.records, store.formats)
print(status(spec).state, status(spec).next_step)
print(max(chunk.seconds for chunk in report(spec).chunks))
""",
    "The adapter": """
from migrate import DualReadStore

with DualReadStore.open(
    "state/orders-app/0_0/rocksdb/refunds",
    source="kafka-streams.key-value",
    target="kafka-streams.timestamped-key-value",
) as store:
    store.put(b"key", bytes(8) + b"value")
    while not store.is_converged:
        store.converge(max_millis=50)
""",
    "Records and formats": """
from dataclasses import replace

from migrate import StateRecord, migrate_store


def convert(record: StateRecord) -> StateRecord | None:
    return replace(record, value=record.value.upper()) if record.value else None


migrate_store("old.db", "new.db", source="rocksdb.raw", target="rocksdb.raw", convert=convert, may_drop=True)
""",
}
"""Run by a test, one after the other."""
_LEAD = """# The Python API

Everything here is imported from `migrate`. Names, parameters and fields that are not on this page may change without
notice. The package is typed: mypy and editors see every signature.

* [Run a migration](#run-a-migration)
* [Look at a migration or a directory](#look-at-a-migration-or-a-directory)
* [The adapter](#the-adapter)
* [Records and formats](#records-and-formats)
* [Errors](#errors)
* [Types](#types)

Times are milliseconds since the epoch where a name ends with `_ms`, otherwise seconds. Sizes are bytes. Keys and values
are `bytes`. A report prints as its short fields, one a line; `report.model_dump_json(indent=2)` is the document that
`--json` prints ([json.md](json.md)).

Hints of errors and the `next_step` of reports are written for the command line: where one says `stateferry run SPEC`, a
program calls `run(spec)`; an option `--accept-rejects 3` is the parameter `accept_rejects=3`."""
_INTRODUCTIONS = {
    "Run a migration": """\
The functions in the order of work. Each does what the command of its name does ([cli.md](cli.md)).""",
    "Look at a migration or a directory": "None of these changes a file.",
    "The adapter": """\
Stores of bytes for a stream processor, in one process. [lazy.md](lazy.md) says what they guarantee.""",
    "Records and formats": """\
A conversion function takes and returns a `StateRecord`. [formats.md](formats.md) describes the formats, and the package
`formats` has them as pure functions of bytes: `get_format`, `compile_conversion`.""",
    "Errors": """\
Every error is a `MigrationError`, with `message`, what happened and where, `hint`, what to do next, and `exit_code`,
that of the command; except for `EntryError`: a serde, or a conversion function, cannot read or write one record.""",
    "Types": "Reports and their parts are frozen pydantic models.",
}


def api_page() -> str:
    """The page, without the line that says how it is made."""
    return "\n\n".join([_LEAD, *(_section(title) for title in _INTRODUCTIONS)]) + "\n"


def _section(title: str) -> str:
    names = [name for name in _in_order() if section_of(name) == title]
    parts = [f"## {title}\n\n{_INTRODUCTIONS[title]}"]
    if title in EXAMPLES:
        parts.append(f"```python{EXAMPLES[title]}```")
    if title == "Errors":
        return "\n\n".join([*parts, _errors(names)])
    in_json = [name for name in names if _is_in_json(getattr(migrate, name))]
    parts += [_entry(name) for name in names if name not in in_json]
    if in_json:
        parts.append("### Reports and their parts\n\n" + _reports(in_json))
    return "\n\n".join(parts)


def section_of(name: str) -> str:
    """The title of the section that describes a public name, by where it is defined."""
    public, home = getattr(migrate, name), vars(migrate)["_HOME_OF"][name]
    if inspect.isclass(public) and issubclass(public, migrate.MigrationError | formats.FormatError | migrate.ExitCode):
        return "Errors"
    if home.startswith("formats"):
        return "Records and formats"
    if home.startswith(("migrate.dual", "migrate.stores")):
        return "The adapter"
    if inspect.isfunction(public):
        is_look = home.startswith(("migrate.batch.status", "migrate.survey")) and name != "init_spec"
        return "Look at a migration or a directory" if is_look else "Run a migration"
    return "Run a migration" if name == "Spec" else "Types"


def _in_order() -> list[str]:
    """The public names: functions in the order of work, then classes by name."""
    verbs = ["Spec", "load_spec", *main.commands]

    def place(name: str) -> tuple[int, str]:
        verb = name.removesuffix("_spec") if name == "init_spec" else name.replace("known_formats", "formats")
        is_class = inspect.isclass(getattr(migrate, name))
        return (verbs.index(verb) if verb in verbs else len(verbs) + is_class, name)

    first = ("DualReadStore", "StateRecord", "MigrationError")
    names = sorted(migrate.__all__, key=place)
    return [*(name for name in names if name in first), *(name for name in names if name not in first)]


def _entry(name: str) -> str:
    public = getattr(migrate, name)
    if inspect.isfunction(public):
        return f"### {name}\n\n{_function(public, name)}"
    if not inspect.isclass(public):
        return f"### {name}\n\n`{in_code(public)}`"
    parts = [f"### {name}", _paragraphs(inspect.getdoc(public) or ""), _content(public), _methods(public)]
    if issubclass(public, OrderedStore):
        parts.insert(-1, "It has every method of [StateStore](#statestore), and these:")
    methods = [each for each in IN_FULL if each.startswith(f"{name}.")]
    parts += [f"#### {each}\n\n{_function(getattr(public, each.partition('.')[2]), each)}" for each in methods]
    return "\n\n".join(filter(None, parts))


def _content(kind: type) -> str:
    """The fields of a class, or the parameters to construct it with."""
    if issubclass(kind, enum.Enum):
        return ", ".join(f"`{member.name}`" for member in kind)
    if typing.is_typeddict(kind):
        return ""
    if not (dataclasses.is_dataclass(kind) or issubclass(kind, BaseModel)):
        is_ours = getattr(kind.__init__, "__module__", "").startswith("migrate.")
        is_constructed = is_ours and kind.__name__ not in NOT_CONSTRUCTED
        return f"```python\n{signature(kind.__init__, kind.__name__)}\n```" if is_constructed else ""
    docs, hints = own_docstrings(kind), typing.get_type_hints(kind)
    names = [name for name in hints if not name.startswith("_") and name != "model_config"]
    table = _table("field | type", ([f"`{name}`", _code(in_code(hints[name])), docs.get(name, "")] for name in names))
    events = ", ".join(f"`{name}`" for name in (*EVENTS, *DRY_RUN_EVENTS))
    return f"{table}\n\nNames: {events}." if kind is migrate.Event else table


def _methods(kind: type) -> str:
    if issubclass(kind, enum.Enum) or typing.is_typeddict(kind):
        return ""
    rows = []
    for name, member in inspect.getmembers_static(kind):
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        is_told = f"{kind.__name__}.{name}" in IN_FULL or (
            issubclass(kind, OrderedStore) and _is_inherited(name, member)
        )
        if not inspect.isfunction(function) or name.startswith("_") or is_told:
            continue
        if function.__module__.startswith(("migrate.", "formats.")):
            call = name if isinstance(member, property) else f"{name}({', '.join(parameters_of(function))})"
            rows.append([_code(call + result_of(function)), _in_line(function)])
    return _table("method or property", rows)


def _is_inherited(name: str, member: object) -> bool:
    """Whether a method of a store is what the protocol says of it, or nothing more."""
    return hasattr(StateStore, name) and inspect.getdoc(member) in {None, inspect.getdoc(getattr(StateStore, name))}


def _function(function: Callable[..., object], name: str) -> str:
    parameters, errors = arguments_and_errors(function)
    parts = [f"```python\n{signature(function, name)}\n```", _paragraphs(summary(function))]
    parts.append(_table("parameter", ([f"`{each}`", _escaped(text)] for each, text in parameters.items())))
    if errors:
        parts.append("Raises:\n\n" + "\n".join(f"* `{error}`: {text}" for error, text in errors.items()))
    return "\n\n".join(filter(None, parts))


def _errors(names: list[str]) -> str:
    rows = []
    for name in names:
        error = getattr(migrate, name)
        if name != "ExitCode":
            bases = ", ".join(f"`{base.__name__}`" for base in error.__bases__)
            code = str(int(error.exit_code)) if hasattr(error, "exit_code") else ""
            rows.append([f"`{name}`", bases, code, _in_line(error)])
    codes = ", ".join(f"`{code.name}` {int(code)}" for code in migrate.ExitCode)
    table = _table("error | is a | exit code", rows)
    return f"{table}\n\n`ExitCode` has the exit codes: {codes} ([cli.md](cli.md#exit-codes))."


def _is_in_json(public: object) -> bool:
    return inspect.isclass(public) and issubclass(public, Value)


def _reports(names: list[str]) -> str:
    return _table("type", ([f"[{name}](json.md#{name.lower()})", _in_line(getattr(migrate, name))] for name in names))


def _table(titles: str, rows: Iterable[list[str]]) -> str:
    """A table whose last column has no title; empty without rows."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([f"| {titles} | |", "|---" * (titles.count("|") + 2) + "|", *lines]) if lines else ""


def _in_line(public: object) -> str:
    return _escaped(" ".join((inspect.getdoc(public) or "").split()))


def _paragraphs(doc: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in doc.split("\n\n"))


def _code(code: str) -> str:
    return f"`{_escaped(code)}`"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
