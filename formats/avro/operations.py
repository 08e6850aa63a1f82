"""The operations of an Avro program; `program.run_avro` defines what each one does."""

from __future__ import annotations

from dataclasses import dataclass

MAX_DEPTH = 100
"""How deep a value of a recursive type may hold values of its own type; protobuf's limit too."""
MAX_EMPTY = 65536
"""How many items that take no bytes one value may claim: nothing else bounds their count."""


@dataclass(frozen=True, slots=True)
class Keep:
    """Check the next value and copy it."""

    kind: str
    """boolean, int, long, float, double, bytes, string (which checks UTF-8) or fixed."""
    size: int = 0
    """Of float, double and fixed."""

    def __str__(self) -> str:
        return f"fixed({self.size})" if self.kind == "fixed" else self.kind


@dataclass(frozen=True, slots=True)
class Promote:
    """Read an int, a long or a float, and write it as a float or a double. (An int has the bytes of a long.)"""

    kind: str
    to: str

    def __str__(self) -> str:
        return f"{self.kind} as {self.to}"


@dataclass(frozen=True, slots=True)
class Emit:
    """Write these bytes."""

    data: bytes

    def __str__(self) -> str:
        return f"emit {self.data.hex()}"


@dataclass(frozen=True, slots=True)
class Refuse:
    """There is no new value for this one."""

    reason: str

    def __str__(self) -> str:
        return f"refuse ({self.reason})"


@dataclass(frozen=True, slots=True)
class Call:
    """Run the operations that the program holds under this name."""

    name: str
    level: int
    """By how much the value is nested deeper in values of its own type: 1 or 0."""

    def __str__(self) -> str:
        return f"call {self.name}"


@dataclass(frozen=True, slots=True)
class Drop:
    """Run these, and forget what they write."""

    body: tuple[Operation, ...]

    def __str__(self) -> str:
        return f"drop ({printed(self.body)})"


@dataclass(frozen=True, slots=True)
class Choice:
    """Read the number of a union's branch or of an enum's symbol; run what is at that place."""

    branches: tuple[tuple[Operation, ...], ...]

    def __str__(self) -> str:
        return f"choice ({' | '.join(map(printed, self.branches))})"


@dataclass(frozen=True, slots=True)
class Repeat:
    """Read the blocks of an array or of a map; run `body` for each item; write one block."""

    body: tuple[Operation, ...]
    least: int
    """The bytes that an item takes at least."""

    def __str__(self) -> str:
        return f"each ({printed(self.body)})"


@dataclass(frozen=True, slots=True)
class Arrange:
    """Run the parts one after the other; write what they wrote in another order."""

    parts: tuple[tuple[Operation, ...], ...]
    order: tuple[int, ...]

    def __str__(self) -> str:
        parts = "; ".join(f"{number}: {printed(part)}" for number, part in enumerate(self.parts))
        return f"arrange ({parts}) as ({', '.join(map(str, self.order))})"


Operation = Keep | Promote | Emit | Refuse | Call | Drop | Choice | Repeat | Arrange
Operations = tuple[Operation, ...]


def printed(operations: Operations) -> str:
    """As it stands in a plan."""
    return ", ".join(map(str, operations)) or "nothing"
