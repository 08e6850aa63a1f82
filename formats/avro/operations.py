"""The operations of an Avro program; `program.run_avro` defines what each one does."""

from __future__ import annotations

from dataclasses import dataclass

MAX_DEPTH = 100
"""How deep values of a recursive type may be nested; protobuf's limit too."""
MAX_EMPTY = 65536
"""How many items without bytes one value may hold: nothing else limits their count."""


@dataclass(frozen=True, slots=True)
class Keep:
    """Check the next value and copy it."""

    kind: str
    """boolean, int, long, float, double, bytes, string (which checks UTF-8) or fixed."""
    size: int = 0
    """The size in bytes of a float, double or fixed."""

    def __str__(self) -> str:
        return f"fixed({self.size})" if self.kind == "fixed" else self.kind


@dataclass(frozen=True, slots=True)
class Promote:
    """Read an int, a long or a float, and write it as a float or a double; reject an integer that would be rounded.

    (An int has the bytes of a long.)
    """

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
    """Reject the value: the new schema has no place for it."""

    reason: str

    def __str__(self) -> str:
        return f"refuse ({self.reason})"


@dataclass(frozen=True, slots=True)
class Call:
    """Run the operations that the program holds under this name."""

    name: str
    level: int
    """How much deeper the value is nested in values of its own type: 1 or 0."""

    def __str__(self) -> str:
        return f"call {self.name}"


@dataclass(frozen=True, slots=True)
class Drop:
    """Run these operations, and discard what they write."""

    body: tuple[Operation, ...]

    def __str__(self) -> str:
        return f"drop ({printed(self.body)})"


@dataclass(frozen=True, slots=True)
class Choice:
    """Read the number of a union's branch or an enum's symbol, and run the operations at that index."""

    branches: tuple[tuple[Operation, ...], ...]

    def __str__(self) -> str:
        return f"choice ({' | '.join(map(printed, self.branches))})"


@dataclass(frozen=True, slots=True)
class Repeat:
    """Read the blocks of an array or of a map; run `body` for each item; write one block."""

    body: tuple[Operation, ...]
    least: int
    """The smallest size of an item in bytes."""

    def __str__(self) -> str:
        return f"each ({printed(self.body)})"


@dataclass(frozen=True, slots=True)
class Arrange:
    """Run the parts one after the other, and write their results in another order."""

    parts: tuple[tuple[Operation, ...], ...]
    order: tuple[int, ...]

    def __str__(self) -> str:
        parts = "; ".join(f"{number}: {printed(part)}" for number, part in enumerate(self.parts))
        return f"arrange ({parts}) as ({', '.join(map(str, self.order))})"


Operation = Keep | Promote | Emit | Refuse | Call | Drop | Choice | Repeat | Arrange
Operations = tuple[Operation, ...]


def printed(operations: Operations) -> str:
    """The operations as text, as a plan stores them."""
    return ", ".join(map(str, operations)) or "nothing"
