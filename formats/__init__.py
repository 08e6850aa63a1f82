"""What the bytes in a state store mean. Pure: bytes to records and back, no I/O."""

from formats.conversion import CONVERSION_REVISION, Conversion, compile_conversion, conversion_problem
from formats.encoding.headers import Headers
from formats.errors import (
    EntryError,
    FormatError,
    FunctionError,
    InvalidEntryError,
    LossError,
    TruncatedEntryError,
    UnknownFormatError,
)
from formats.format import Format
from formats.function import Function
from formats.program import ByteProgram
from formats.record import History, StateRecord, Version, Window
from formats.registry import FORMATS, get_format
from formats.serde import Serde

__all__ = [
    "CONVERSION_REVISION",
    "FORMATS",
    "ByteProgram",
    "Conversion",
    "EntryError",
    "Format",
    "FormatError",
    "Function",
    "FunctionError",
    "Headers",
    "History",
    "InvalidEntryError",
    "LossError",
    "Serde",
    "StateRecord",
    "TruncatedEntryError",
    "UnknownFormatError",
    "Version",
    "Window",
    "compile_conversion",
    "conversion_problem",
    "get_format",
]
