"""`formats`: what is known, what each conversion keeps and loses, and which there are none of."""

from __future__ import annotations

from typing import Literal

from formats import FORMATS, Conversion, Format, conversion_problem
from formats.format import Kind
from formats.serdes.registry import SERDES
from migrate.model.values import Report, Value
from migrate.spec.allowed import must_be_allowed, possible_targets
from migrate.systems import SYSTEMS


class ConversionReport(Value):
    """From one format to another."""

    target: str
    problem: str | None
    """Why there is no such conversion; None: there is."""
    nearest: tuple[str, ...]
    """What the old store can become instead, the most alike first; empty where there is no problem."""
    is_compiled: bool
    """A byte program does it; else the reference path, record by record."""
    program: str | None
    keeps: tuple[str, ...]
    """What a record holds in both, beside key and value."""
    losses: tuple[str, ...]
    """What the target cannot hold, by the names that the spec must allow: "loss:timestamp"."""
    changelog: Literal["stays right", "no longer matches", "none"]
    """Whether a restore from the changelog gives the new store; "none": the new store has none."""
    must_be_allowed: tuple[str, ...]
    """All that the spec must allow by name, losses included: "changelog"."""


class FormatReport(Value):
    """One known format."""

    id: str
    summary: str
    system: str
    kind: Kind
    since: str | None
    """The first version of the owning system that has it; None: any that is in use."""
    is_segmented: bool
    """Each store partition is a directory of RocksDB directories, by time."""
    column_families: tuple[str, ...] | None
    """That hold records; None: any."""
    older_families: tuple[str, ...]
    """That an upgrade which is not finished leaves records in: they are read too."""
    metadata_families: tuple[str, ...]
    """The owning system's own: never converted."""
    carries: tuple[str, ...]
    """What a record holds beside key and value."""
    conversions: tuple[ConversionReport, ...]


class SerdeReport(Value):
    """What keys and values can be read and written as: `[conversion.key]`, `[conversion.value]`."""

    name: str
    summary: str
    python_type: str
    """What a function sees, and returns."""
    options: tuple[str, ...]
    keeps_bytes: bool
    """Every payload is written as it was read."""


class UnsupportedReport(Value):
    """A kind of store that is known, and cannot be migrated."""

    name: str
    told_by: str
    reason: str
    instead: str
    """What can be done."""


class FormatsReport(Report):
    """All of them."""

    formats: tuple[FormatReport, ...]
    serdes: tuple[SerdeReport, ...]
    unsupported: tuple[UnsupportedReport, ...]


def known_formats() -> FormatsReport:
    """What can be named in a spec. Touches no file."""
    return FormatsReport(
        formats=tuple(map(_format_report, FORMATS)),
        serdes=tuple(
            SerdeReport(
                name=known.name,
                summary=known.summary,
                python_type=known.python_type,
                options=known.options,
                keeps_bytes=known.keeps_bytes,
            )
            for known in SERDES
        ),
        unsupported=tuple(
            UnsupportedReport(name=kind.name, told_by=kind.recognized_by, reason=kind.reason, instead=kind.instead)
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
        changelog=_changelog(conversion),
        must_be_allowed=must_be_allowed(conversion) if problem is None else (),
    )


def _changelog(conversion: Conversion) -> Literal["stays right", "no longer matches", "none"]:
    if not conversion.target.has_changelog:
        return "none"
    return "no longer matches" if conversion.changes_changelog else "stays right"
