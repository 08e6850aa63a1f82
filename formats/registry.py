"""All formats, by id. A new format is one module, one line here, one file of golden bytes."""

from __future__ import annotations

from formats.errors import UnknownFormatError
from formats.format import Format
from formats.kafka_streams.headers_key_value import HEADERS_KEY_VALUE
from formats.kafka_streams.headers_session import HEADERS_SESSION
from formats.kafka_streams.headers_window import HEADERS_WINDOW
from formats.kafka_streams.key_value import KEY_VALUE
from formats.kafka_streams.session import SESSION
from formats.kafka_streams.timestamped_key_value import TIMESTAMPED_KEY_VALUE
from formats.kafka_streams.timestamped_window import TIMESTAMPED_WINDOW
from formats.kafka_streams.versioned import VERSIONED
from formats.kafka_streams.window import WINDOW
from formats.rocksdb_raw import RAW
from formats.streamiz.key_value import KEY_VALUE as STREAMIZ_KEY_VALUE
from formats.streamiz.timestamped_key_value import TIMESTAMPED_KEY_VALUE as STREAMIZ_TIMESTAMPED_KEY_VALUE
from formats.streamiz.timestamped_window import TIMESTAMPED_WINDOW as STREAMIZ_TIMESTAMPED_WINDOW
from formats.streamiz.window import WINDOW as STREAMIZ_WINDOW

FORMATS: tuple[Format, ...] = (
    KEY_VALUE,
    TIMESTAMPED_KEY_VALUE,
    HEADERS_KEY_VALUE,
    WINDOW,
    TIMESTAMPED_WINDOW,
    HEADERS_WINDOW,
    SESSION,
    HEADERS_SESSION,
    VERSIONED,
    STREAMIZ_KEY_VALUE,
    STREAMIZ_TIMESTAMPED_KEY_VALUE,
    STREAMIZ_WINDOW,
    STREAMIZ_TIMESTAMPED_WINDOW,
    RAW,
)

_BY_ID = {known.id: known for known in FORMATS}


def get_format(format_id: str, beside: str = "") -> Format:
    """The format with this id. Raises UnknownFormatError, which names the nearest known one of the same system.

    `beside`: a format that is used with it, whose system is meant where the id names none.
    """
    try:
        return _BY_ID[format_id]
    except KeyError:
        raise UnknownFormatError(format_id, tuple(_BY_ID), beside) from None
