"""The frozen bases of what is stored and of what is reported."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Stored(BaseModel):
    """A frozen value that is written to files and ledgers; bytes are written as hex."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        ser_json_bytes="hex",
        val_json_bytes="hex",
        defer_build=True,
        serialize_by_alias=True,
    )


REPORT_SCHEMA = 1


class Value(BaseModel):
    """A frozen part of a report; bytes are written as hex."""

    model_config = ConfigDict(frozen=True, ser_json_bytes="hex", val_json_bytes="hex", defer_build=True)


class Report(Value):
    """What `--json` prints: its schema is versioned."""

    schema_version: int = REPORT_SCHEMA
