"""`formats`: the known formats, and for each conversion what it keeps and loses, or why it is impossible."""

from __future__ import annotations

from typing import Literal

from formats import FORMATS, Conversion, Format, conversion_problem
from formats.format import Kind
from formats.serdes.registry import SERDES
from migrate.model.values import Report, Value
from migrate.spec.allowed import must_be_allowed, possible_targets
from migrate.systems import SYSTEMS


class ConversionReport(Value):
    """The conversion from one format to another."""

    target: str
    problem: str | None
    """Why the conversion is impossible; None: it is possible."""
    nearest: tuple[str, ...]
    """Formats that the old store can become instead, the most similar first; empty where there is no problem."""
    is_compiled: bool
    """A byte program converts; else the reference path, record by record."""
    program: str | None
    keeps: tuple[str, ...]
    """What records of both formats hold beside key and value."""
    losses: tuple[str, ...]
    """What the target cannot hold, by the names that the spec must allow: "loss:timestamp"."""
    changelog: Literal["stays right", "no longer matches", "none"]
    """Whether a restore from the changelog gives the new store; "none": the new store has no changelog."""
    must_be_allowed: tuple[str, ...]
    """Names that the spec must allow, losses included: "changelog"."""


class FormatReport(Value):
    """One known format."""

    id: str
    summary: str
    system: str
    kind: Kind
    since: str | None
    """The first version of the owning system that has the format; None: every version in use has it."""
    is_segmented: bool
    """Each store partition is a directory of RocksDB directories, one for each span of time."""
    column_families: tuple[str, ...] | None
    """Column families that hold records; None: any."""
    older_families: tuple[str, ...]
    """Pre-upgrade families, in which an unfinished upgrade leaves records: they are read too."""
    metadata_families: tuple[str, ...]
    """The owning system's own column families: never converted."""
    carries: tuple[str, ...]
    """What a record holds beside key and value."""
    conversions: tuple[ConversionReport, ...]


class SerdeReport(Value):
    """A serde for `[conversion.key]` and `[conversion.value]`."""

    name: str
    summary: str
    python_type: str
    """The type that a function receives and returns."""
    options: tuple[str, ...]
    keeps_bytes: bool
    """Every payload is written with the bytes that were read."""


class UnsupportedReport(Value):
    """A kind of store that is known but cannot be migrated."""

    name: str
    recognized_by: str
    reason: str
    instead: str
    """What to do instead."""


class FormatsReport(Report):
    """All known formats, serdes and unsupported stores."""

    formats: tuple[FormatReport, ...]
    serdes: tuple[SerdeReport, ...]
    unsupported: tuple[UnsupportedReport, ...]


def known_formats() -> FormatsReport:
    """What a spec can name. Touches no file."""
    return FormatsReport(
        formats=tuple(map(_format_report, FORMATS)),
        serdes=tuple(SerdeReport.model_validate(serde, from_attributes=True) for serde in SERDES),
        unsupported=tuple(
            UnsupportedReport.model_validate(kind, from_attributes=True)
            for system in SYSTEMS
            for kind in system.unsupported
        ),
    )


def _format_report(known: Format) -> FormatReport:
    return FormatReport(
        id=known.id,
        summary=known.summary,
        system=known.system,
        kind=known.kind,
        since=known.since,
        is_segmented=known.is_segmented,
        column_families=known.column_families,
        older_families=tuple(family.name for family in known.older_families),
        metadata_families=known.metadata_families,
        carries=tuple(sorted(known.carries)),
        conversions=tuple(_conversion_report(Conversion(known, target)) for target in FORMATS),
    )


def _conversion_report(conversion: Conversion) -> ConversionReport:
    source, target = conversion.source, conversion.target
    problem = conversion_problem(source, target)
    program = conversion.program if problem is None else None
    return ConversionReport(
        target=target.id,
        problem=problem,
        nearest=() if problem is None else possible_targets(source, target),
        is_compiled=program is not None,
        program=None if program is None else str(program),
        keeps=tuple(sorted(source.carries & target.carries)),
        losses=conversion.losses if problem is None else (),
        changelog="none"
        if not target.has_changelog
        else "no longer matches"
        if conversion.changes_changelog
        else "stays right",
        must_be_allowed=must_be_allowed(conversion) if problem is None else (),
    )
