"""`/stores` and `/stores/{store}`: what is here."""

from __future__ import annotations

from migrate.serve.context import Context
from migrate.serve.handles import Resolved


def about_stores(context: Context) -> list[dict[str, object]]:
    """Each store, as the service was told of it: without opening any."""
    found = []
    for name in context.stores.names:
        definition = context.handle(name).definition
        described: dict[str, object] = {"name": name, "format": definition.format, "kind": definition.stored.kind}
        found.append(described | {"key": definition.key.name, "value": definition.value.name})
    return found


def about_store(resolved: Resolved) -> dict[str, object]:
    """A store with its partitions on this host."""
    definition, format_ = resolved.definition, resolved.definition.stored
    partitions = []
    for partition in resolved.partitions:
        opened = partition.opened()
        partitions.append(
            {
                "id": partition.id,
                "partition": partition.number,
                "format": opened.format.id,
                "estimated_records": sum(segment.entries.estimated_records for segment in opened.segments),
                "as_of": opened.as_of_ms,
                "position": {f"{topic}-{number}": offset for (topic, number), offset in opened.position.items()},
            }
        )
    return {
        "name": resolved.name,
        "format": format_.id,
        "kind": format_.kind,
        "key": definition.key.name,
        "value": definition.value.name,
        "retention_ms": definition.retention_ms,
        "partitions": partitions,
    }
