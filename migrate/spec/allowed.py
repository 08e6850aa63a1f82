"""What a format can become, and what must be allowed for it."""

from __future__ import annotations

from formats import FORMATS, Conversion, Format, conversion_problem


def possible_targets(source: Format, wanted: Format) -> tuple[str, ...]:
    """What a store of `source` can become, of its own system where there is any, the most like `wanted` first."""
    possible = [known for known in FORMATS if known.id != source.id and conversion_problem(source, known) is None]
    own = [known for known in possible if known.system == source.system] or possible
    return tuple(known.id for known in sorted(own, key=lambda known: len(known.carries ^ wanted.carries)))


def must_be_allowed(conversion: Conversion) -> tuple[str, ...]:
    """What `[conversion] allow` must name, or a run is refused."""
    return (*conversion.losses, *(("changelog",) if conversion.changes_changelog else ()))


def changelog_note(conversion: Conversion) -> str:
    """What the operator must know about the changelog, in one sentence; said at every step."""
    if not conversion.source.has_changelog and not conversion.target.has_changelog:
        return "no changelog is involved"
    if conversion.changes_changelog:
        return "the changelog no longer matches the store (allowed by name): a restore brings the old records back"
    if conversion.source.kind == "versioned" and conversion.target.kind == "key-value":
        return (
            "the changelog holds a record for each version and stays right; a restore takes the last one that was "
            "written, which is an older value where records came late"
        )
    if "timestamp" in conversion.target.carries - conversion.source.carries:
        return (
            "the changelog holds the bare values and stays right; a store that is restored from it has the changelog's "
            f"timestamps, where this one has {conversion.default_timestamp_ms}"
        )
    return "the changelog holds the bare values and stays right: a restore gives the same records"
