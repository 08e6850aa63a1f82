"""An event as one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from migrate.events import Event

_FACTS: dict[str, Callable[[Any], str]] = {
    "source": lambda source: f"{source.path}: {_ids(source.partitions)}",
    "plan": lambda plan: f"revision {plan.revision}, {len(plan.chunks)} chunks, migration {plan.migration_id}",
    "done": lambda receipts: f"{len(receipts)} chunks done before",
    "receipts": lambda receipts: "; ".join(map(_receipt, receipts)),
    "task": lambda task: str(task.chunk),
    "store_partition": lambda partition: str(partition.id),
    "verification": lambda found: f"{found.records:,} records, {found.seconds:,.2f} s",
    "records": lambda records: f"{records:,} records",
}
"""In words, by name; others as they are."""


def in_a_line(event: Event) -> str:
    """`chunk.committed  0_0/orders #3: 2,000 records in, 2,000 out, 0.12 s`."""
    told = [_FACTS.get(name, str)(fact) for name, fact in event.facts.items() if fact is not None]
    return f"{event.name}  {', '.join(filter(None, told))}".rstrip()


def _receipt(receipt: Any) -> str:  # noqa: ANN401 - importing its class would load numpy for nothing
    return f"{receipt}: {receipt.records_in:,} records in, {receipt.records_out:,} out, {receipt.seconds:,.2f} s"


def _ids(partitions: Any) -> str:  # noqa: ANN401
    return ", ".join(partition.id for partition in partitions)
