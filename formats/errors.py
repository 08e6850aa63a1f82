"""What can be wrong with a format's name or with the bytes of one record.

FormatError
 ├── UnknownFormatError      no format has this id
 ├── SchemaError             a schema's text is not a schema
 ├── UnresolvableSchemasError   what one schema wrote cannot be read as another
 └── EntryError              one record cannot be read, converted or written: a reject, not a crash
      ├── TruncatedEntryError    fewer bytes than the layout's fixed part
      ├── InvalidEntryError      the right length, but not what the layout says
      ├── FunctionError          the user's function failed on the record
      └── LossError              the user's function gave the record what the new format has no room for
"""

from __future__ import annotations

from difflib import get_close_matches


class FormatError(Exception):
    """Root of everything that the formats package raises."""


class UnknownFormatError(FormatError):
    """No format has this id; the nearest known id is part of the message."""

    def __init__(self, format_id: str, known: tuple[str, ...], beside: str = "") -> None:
        """`beside`: a format that is used with it, whose system is meant where the id names none."""
        prefix, _, name = format_id.rpartition(".")
        systems = {each.partition(".")[0] for each in known}
        system = next(iter(get_close_matches(prefix or beside.partition(".")[0], systems, n=1, cutoff=0.5)), None)
        own = tuple(each for each in known if system and each.startswith(f"{system}."))
        if own:  # what another system's format is called is no help
            known, found = own, get_close_matches(name, [each.partition(".")[2] for each in own], n=3, cutoff=0.5)
            near = [f"{system}.{each}" for each in found]
        else:
            near = [] if prefix else get_close_matches(format_id, known, n=3, cutoff=0.4)
        hint = f"did you mean {near[0]!r}?" if near else f"known formats: {', '.join(known)}"
        super().__init__(f"unknown format {format_id!r}: {hint}")
        self.format_id = format_id
        self.nearest = near[0] if near else None
        self.near = tuple(near)
        """The most similar ids, the nearest first."""


class SchemaError(FormatError):
    """The text is not a schema. The message says what is wrong, and where."""


class UnresolvableSchemasError(FormatError):
    """No record written with the old schema can be read with the new one; `problems` names each field by its path."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems

    def __reduce__(self) -> tuple[type[UnresolvableSchemasError], tuple[tuple[str, ...]]]:
        return type(self), (self.problems,)


class EntryError(FormatError):
    """One record cannot be converted. The message is the reason, in words for an operator."""

    place: str = ""
    """File and line of the user's code that the reason comes from; empty: it comes from a format or a serde."""
    part: str = ""
    """"key" or "value", where the serde of that part could not read it."""
    is_for_a_function: bool = False
    """Whether that part seems to be what no serde here reads."""


class TruncatedEntryError(EntryError):
    """The bytes end before the layout's fixed part does."""

    def __init__(self, what: str, size: int, needed: int) -> None:
        super().__init__(f"{what} has {size} bytes, the layout needs at least {needed}")
        self.size = size
        self.needed = needed


class InvalidEntryError(EntryError):
    """The bytes or the record's fields are not what the layout allows."""


class FunctionError(EntryError):
    """The user's conversion function raised, or returned something that is not a record."""


class LossError(EntryError):
    """The user's function gave the record something that would be lost, as the new format has no room for it."""

    loss: str = ""
    """The name by which a spec allows it, such as "loss:headers"."""
