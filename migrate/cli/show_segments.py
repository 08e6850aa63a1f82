"""The segments of windowed and session stores, before and after, as text."""

from __future__ import annotations

from collections.abc import Sequence

from migrate.dry_run.report import Found, Segmentation, SegmentPlanned
from migrate.words import moment, plural

_MOST_PARTITIONS = 4


def segments(found: Sequence[Segmentation], records: Found, *, is_whole: bool) -> dict[str, str]:
    """A few words for each store partition; all that is known of each segment where that is asked for."""
    shown = found if is_whole else found[:_MOST_PARTITIONS]
    rows = {each.store_partition: "\n".join(_segmentation(each, is_whole=is_whole)) for each in shown}
    if left := len(found) - len(shown):
        rows["..."] = f"and {plural(left, 'store partition')} more: --verbose lists them"
    if any(each.expired_before_ms is not None for each in found):
        about = "" if records.exact else "about "
        rows["left behind"] = (
            f"{about}{records.expired:,} of {records.records:,} records are older than the new retention: the "
            "application would not keep them either"
        )
    return rows


def _segmentation(each: Segmentation, *, is_whole: bool) -> list[str]:
    lines = [f"{plural(len(each.old), 'segment')}, {_become(each)}"]
    if each.expired_before_ms is not None:
        lines.append(f"nothing from before {moment(each.expired_before_ms)}")
    if is_whole:
        lines += [f"{new.name} of {', '.join(new.made_of)}" for new in each.new]
    return lines


def _become(each: Segmentation) -> str:
    if all(new.made_of == (new.name,) for new in each.new) and len(each.new) == len(each.old):
        return f"which stay as they are: {_times(each.new)}"
    return f"which become {len(each.new):,}: {_times(each.new)}"


def _times(new: Sequence[SegmentPlanned]) -> str:
    starts = [segment.start_ms for segment in new if segment.start_ms is not None]
    if not starts:
        return "none"
    return moment(starts[0]) if len(starts) == 1 else f"{moment(min(starts))} to {moment(max(starts))}"
