"""`formats`: what is known, and what each conversion would lose."""

from __future__ import annotations

from formats import FORMATS, Conversion, Format
from migrate.report_model import Report, Value


class ConversionReport(Value):
    """From one format to another."""

    target: str
    is_compiled: bool
    """A byte program does it; else the reference path, record by record."""
    program: str | None
    losses: tuple[str, ...]
    """What the target cannot hold, by the names that the spec must allow: "loss:timestamp"."""
    must_be_allowed: tuple[str, ...]
    """All that the spec must allow by name, losses included: "changelog"."""


class FormatReport(Value):
    """One known format."""

    id: str
    summary: str
    system: str
    column_families: tuple[str, ...] | None
    """That hold records; None: any."""
    metadata_families: tuple[str, ...]
    """The owning system's own: carried as they are."""
    carries: tuple[str, ...]
    """What a record holds beside key and value."""
    conversions: tuple[ConversionReport, ...]


class FormatsReport(Report):
    """All of them."""

    formats: tuple[FormatReport, ...]


def known_formats() -> FormatsReport:
    """What can be named in a spec. Touches no file."""
    return FormatsReport(formats=tuple(map(_format_report, FORMATS)))


def _format_report(known: Format) -> FormatReport:
    return FormatReport(
        id=known.id,
        summary=known.summary,
        system=known.system,
        column_families=known.column_families,
        metadata_families=known.metadata_families,
        carries=tuple(sorted(known.carries)),
        conversions=tuple(_conversion_report(Conversion(known, target)) for target in FORMATS),
    )


def _conversion_report(conversion: Conversion) -> ConversionReport:
    program = conversion.program
    return ConversionReport(
        target=conversion.target.id,
        is_compiled=program is not None,
        program=None if program is None else str(program),
        losses=conversion.losses,
        must_be_allowed=must_be_allowed(conversion),
    )


def must_be_allowed(conversion: Conversion) -> tuple[str, ...]:
    """What `[conversion] allow` must name, or a run is refused."""
    return (*conversion.losses, *(("changelog",) if conversion.changes_changelog else ()))
