"""Records, and what there is of them in a topic."""

from migrate.kafka.connection import Connection
from migrate.kafka.reader import read
from migrate.kafka.writer import Writer
from migrate.stores.batch import ChangelogBatch

NOW = 1_700_000_000_000


def records(first: int, last: int, size: int = 10) -> ChangelogBatch:
    """Those with these numbers as keys."""
    count = last - first
    return ChangelogBatch([b"%06d" % each for each in range(first, last)], [b"v" * size] * count, [NOW] * count)


def write(connection: Connection, topic: str, *batches: ChangelogBatch, number: int = 0) -> int | None:
    """Write them with an id of their own; the last offset."""
    with Writer(connection, topic, number, f"writer-of-{topic}") as writer:
        for batch in batches:
            writer.write(batch)
        return writer.finish()


def keys(connection: Connection, topic: str, start: int, end: int) -> list[int]:
    """The numbers of the records that are read."""
    return [int(key) for batch in read(connection, topic, 0, start, end, patience=10) for key in batch.keys]
