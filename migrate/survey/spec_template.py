"""The text of the spec that `init` writes: each choice with its reason, and the alternatives as comments."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from formats import Conversion
from migrate.batch.source.source import is_another_system, source_system
from migrate.model.display import listed, plural
from migrate.spec.allowed import LOST_FIELDS, MEANINGS, must_be_allowed
from migrate.spec.spec import Spec


@dataclass(frozen=True, slots=True)
class SpecComments:
    """The facts that the comments of the spec mention."""

    store_partitions: tuple[str, ...]
    records: int
    column_families: tuple[str, ...]
    other_stores: tuple[str, ...]
    """Other stores that can only be of the same format."""
    target_path: str
    """A path for [target], as an alternative."""
    warnings: tuple[str, ...]


def spec_text(spec: Spec, found: SpecComments) -> str:
    """TOML that `load_spec` reads as `spec`."""
    lines = [
        "# Written by `stateferry init`. To see what a run would do, with no change: stateferry plan <this file>",
        "# Relative paths are relative to this file.",
        "",
        f"name = {toml_string(spec.name)}  # the migration's own folder in work_dir",
        "# Plan, snapshot, new stores and, after the cut-over, the old ones: on the file system of the state directory",
        "# (files are hard-linked, and stores exchanged, within one file system), never inside it.",
        f"work_dir = {_path(spec.work_dir)}",
        *_source(spec, found),
        *_target(spec, found),
        *_conversion(spec),
        *_run(spec),
    ]
    return "\n".join(lines) + "\n"


def _source(spec: Spec, found: SpecComments) -> list[str]:
    partitions = listed([*map(toml_string, found.store_partitions)], 8)
    families = ", ".join(toml_string(name) for name in found.column_families)
    lines = [
        "",
        "[source]",
        f"# Found: about {plural(found.records, 'record')} "
        f"in {plural(len(found.store_partitions), 'store partition')},",
        f"# {partitions}; column families {families}.",
        *(f"# Warning: {toml_string(' '.join(warning.split()))[1:-1]}" for warning in found.warnings),
        f"format = {toml_string(spec.source.format)}",
        f"path = {_path(spec.source.path)}",
    ]
    if spec.source.store is not None:
        lines.append(f"store = {toml_string(spec.source.store)}")
    if spec.has_segments and spec.source.retention_ms is None:
        lines += [
            "# Segments stay as they are. To change the retention, set here the one that they were made with, and the",
            "# new one in [target]: records go to the segments where the application will look for them, and records",
            "# that are too old are left behind. Set segment_ms too if the application does.",
            "# retention_ms = 86400000",
        ]
    if found.other_stores:
        together = toml_strings([*spec.source.store_names, *found.other_stores])
        lines.append(f"# To migrate the other stores of this format with it, replace `store` by: stores = {together}")
    return lines


def _target(spec: Spec, found: SpecComments) -> list[str]:
    lines = ["", "[target]", f"format = {toml_string(spec.target.format)}"]
    if spec.has_segments and spec.target.retention_ms is None:
        lines.append("# retention_ms = 172800000")
    since = spec.target_format.since
    if since is not None:
        lines.append(f'# version = "{since}"  # of the system that will open the new store: it has this since {since}')
    elif (versions := spec.target_format.versions) is not None:
        why = "of the system that will open the new store, if it matters: checked before the run"
        lines.append(f'# version = "{versions.example}"  # {why}')
    if spec.target.path is not None:
        lines += [
            "# A complete new state directory appears here once it is verified; the old one stays as it is.",
            f"path = {_path(spec.target.path)}",
        ]
        return lines
    if is_another_system(spec):
        lines.append("# Required: the systems' state directories differ, so a new one is made. It must not exist yet.")
    else:
        lines += [
            "# Once verified, `stateferry cutover` exchanges old and new stores; `stateferry rollback` undoes that.",
            "# Or name a path for a complete new state directory; the old one stays as it is:",
        ]
    return [*lines, f"# path = {toml_string(found.target_path)}"]


_CHANGELOG = (
    "",
    "# Migrates the store and its changelog topic as one; needed where keys or values change. docs/changelogs.md says",
)
_NEW_NAME = '# more. Then name the store that the new code declares in [target] store, or choose way = "append".'
_BROKER = (
    "# [changelog]",
    '# bootstrap = "broker:9092"',
    '# config = "client.properties"  # librdkafka\'s properties; ${NAME} stands for a variable of the environment',
)
_APPEND = '# way = "append"  # where keys or values change: stores of this system cannot get another name'


def _changelog(spec: Spec) -> list[str]:
    system = source_system(spec)
    lines = [*_CHANGELOG, _NEW_NAME, *_BROKER] if system.can_rename else [*_CHANGELOG, "# more.", *_BROKER, _APPEND]
    if system.changelog.application_id(spec.source_path) is None:
        lines.append('# application_id = "..."  # which the path does not tell')
    return lines


def _conversion(spec: Spec) -> list[str]:
    lines = ["", "[conversion]"]
    source, target = spec.source_format, spec.target_format
    gains_timestamp = "timestamp" in target.carries - source.carries
    must_be = must_be_allowed(Conversion(source, target))
    if gains_timestamp and target.kind == "versioned":
        lines += [
            "# Required: a versioned store has a timestamp for each value, and the old one has none. In milliseconds:",
            "# default_timestamp_ms = 1767225600000",
        ]
    elif gains_timestamp:
        as_upgrade = ", as Kafka Streams' own upgrade writes" if target.system == "kafka-streams" else ""
        lines += [
            f"# Written where the old store has no timestamp; -1: unknown{as_upgrade}.",
            "default_timestamp_ms = -1",
        ]
    if source == target:
        lines.append("# The formats are the same: without a function the records stay as they are.")
    lines += [
        "# Your own change of each record, in a module beside this file: from StateRecord to StateRecord, or None to",
        '# drop it, which is refused unless allow has "drop", or [run] max_dropped or max_dropped_share bounds it.',
        '# function = "my_conversion:convert"',
    ]
    if must_be:
        lines += [
            "# Refused unless you allow it by name; the consequences are:",
            *(f"#   {name}: {MEANINGS[name]}" for name in must_be),
            f"# allow = {toml_strings(must_be)}",
        ]
    return [
        *lines,
        "# How to convert keys and values: docs/serdes.md describes all serdes and options.",
        "# [conversion.value]",
        '# from = {serde = "avro", frame = "confluent", schemas = {1 = "v1.avsc"}}',
        '# to = {serde = "avro", frame = "confluent", id = 2, schema = "v2.avsc"}',
        "# Fields that the new schema leaves out, and symbols that become its default, are lost: refused without",
        f'# in [conversion]: allow = ["{LOST_FIELDS}"]',
        *(_changelog(spec) if source.has_changelog and target.has_changelog and spec.source.store_names else ()),
    ]


def _run(spec: Spec) -> list[str]:
    run = spec.run
    return [
        "",
        "[run]  # these settings may be changed between runs",
        'chunk_size = "1 GiB"  # at most this much work is repeated per slot after a run is killed',
        f'on_reject = {toml_string(run.on_reject)}  # records that cannot be converted; or "skip", "dead-letter"',
        f'verify = {toml_string(run.verify)}  # reads both stores once more and compares; or "digest", "off"',
        f'snapshot = {toml_string(run.snapshot)}  # hard links to the old files, without a copy; or "copy"',
    ]


def _path(path: Path) -> str:
    return toml_string(str(path))


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def toml_string(text: str) -> str:
    """A basic string, on one line. Raises ValueError for what no TOML file can hold: half of a surrogate pair."""
    text.encode("utf-8")
    return f'"{"".join(map(_character, text))}"'


def toml_strings(texts: Iterable[str]) -> str:
    """An array of strings, on one line."""
    return f"[{', '.join(map(toml_string, texts))}]"


def _character(character: str) -> str:
    """The character, escaped if it is not printable: no comment can end early, and no reader is misled."""
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"
