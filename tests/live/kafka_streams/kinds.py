"""The kinds of store that the Java program makes and opens."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

KEY_VALUE = "key-value"
TIMESTAMPED_KEY_VALUE = "timestamped-key-value"
HEADERS_KEY_VALUE = "headers-key-value"
WINDOW = "window"
TIMESTAMPED_WINDOW = "timestamped-window"
HEADERS_WINDOW = "headers-window"
JOIN_WINDOW = "join-window"
HEADERS_JOIN_WINDOW = "headers-join-window"
SESSION = "session"
HEADERS_SESSION = "headers-session"
VERSIONED = "versioned"

# Kafka Streams release: the Jackson release it brings, which the program is compiled against.
VERSIONS: Mapping[str, str] = {"3.9.1": "2.16.2", "4.0.1": "2.16.2", "4.3.1": "2.21.2"}
HEADERS_VERSIONS = ("4.3.1",)

RETENTION_MS = 30 * 60 * 1000


@dataclass(frozen=True, slots=True)
class Kind:
    """What a kind of store keeps of a record, and how its records are keyed."""

    shape: Literal["key-value", "window", "session", "versioned"]
    timestamped: bool = False
    headers: bool = False
    duplicates: bool = False

    @property
    def segmented(self) -> bool:
        """Whether its records lie in one database for each segment of time."""
        return self.shape in ("window", "session")


KINDS: Mapping[str, Kind] = {
    KEY_VALUE: Kind("key-value"),
    TIMESTAMPED_KEY_VALUE: Kind("key-value", timestamped=True),
    HEADERS_KEY_VALUE: Kind("key-value", timestamped=True, headers=True),
    WINDOW: Kind("window"),
    TIMESTAMPED_WINDOW: Kind("window", timestamped=True),
    HEADERS_WINDOW: Kind("window", timestamped=True, headers=True),
    JOIN_WINDOW: Kind("window", duplicates=True),
    HEADERS_JOIN_WINDOW: Kind("window", timestamped=True, headers=True, duplicates=True),
    SESSION: Kind("session"),
    HEADERS_SESSION: Kind("session", headers=True),
    VERSIONED: Kind("versioned", timestamped=True),
}


def versions_of(kind: str) -> tuple[str, ...]:
    """Return the releases that have this kind of store."""
    return HEADERS_VERSIONS if KINDS[kind].headers else tuple(VERSIONS)


def segment_interval(retention_ms: int) -> int:
    """Return how much time one segment of a window or session store covers, in milliseconds."""
    return max(retention_ms // 2, 60_000)
