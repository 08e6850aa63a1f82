"""Names of segment directories: `<store>.<start>`, and what older versions wrote and newer ones still read.

    <store>.1700000000000      milliseconds since the epoch
    <store>:1700000000000      before that, the same
    <store>-202311142213       and before that, year to minute in UTC

Source: org.apache.kafka.streams.state.internals.AbstractSegments.segmentIdFromSegmentName.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

_NUMBER = re.compile(r"[0-9]{1,18}")
_MINUTE = re.compile(r"[0-9]{12}")


def segment_start(store: str, name: str) -> int | None:
    """Milliseconds since the epoch; None: it is no name of a segment of this store."""
    separator, told = name[len(store) : len(store) + 1], name[len(store) + 1 :]
    if not name.startswith(store) or separator not in (".", ":", "-"):
        return None
    if separator == "-" and _MINUTE.fullmatch(told):  # strptime is content with fewer digits
        try:
            return int(datetime.strptime(told, "%Y%m%d%H%M").replace(tzinfo=UTC).timestamp()) * 1000
        except ValueError:
            return None
    return int(told) if separator != "-" and _NUMBER.fullmatch(told) else None
