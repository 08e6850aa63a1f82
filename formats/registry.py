"""All formats, by id. A new format is a `Format` with its byte table, one line here, one file of golden bytes."""

from __future__ import annotations

from formats import faust, quix, streamiz
from formats.errors import UnknownFormatError
from formats.format import Format
from formats.kafka_streams import stores as kafka_streams
from formats.kafka_streams.versioned import VERSIONED
from formats.rocksdb_raw import RAW

FORMATS: tuple[Format, ...] = (
    kafka_streams.KEY_VALUE,
    kafka_streams.TIMESTAMPED_KEY_VALUE,
    kafka_streams.HEADERS_KEY_VALUE,
    kafka_streams.WINDOW,
    kafka_streams.TIMESTAMPED_WINDOW,
    kafka_streams.HEADERS_WINDOW,
    kafka_streams.SESSION,
    kafka_streams.HEADERS_SESSION,
    VERSIONED,
    streamiz.KEY_VALUE,
    streamiz.TIMESTAMPED_KEY_VALUE,
    streamiz.WINDOW,
    streamiz.TIMESTAMPED_WINDOW,
    faust.TABLE,
    quix.KEY_VALUE,
    quix.TTL_KEY_VALUE,
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
