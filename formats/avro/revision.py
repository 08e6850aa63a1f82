"""Which revision of the rules a pair of schemas needs: part of a migration's identity, so that none goes on by two.

By the first revision names went before aliases, of several types of one short name a union's first was taken, and a
long was rounded to a double before it was rounded to a float. Most pairs meet nothing of that.
"""

from __future__ import annotations

from collections.abc import Iterable

from formats.avro.pairing import short
from formats.avro.resolving import findings_of
from formats.avro.schema import AvroSchema, types_of
from formats.avro.types import Named, Record, Types


def revision_of(writer: AvroSchema, reader: AvroSchema) -> int:
    """1 where both revisions give the same bytes, else 2."""
    types = types_of(reader)
    differs = findings_of(writer, reader).rounds_longs or _names_meet(types) or _branches_are_alike(types)
    return 2 if differs else 1


def _names_meet(types: Types) -> bool:
    """Whether an alias is another's name or alias, too."""
    records = (known.fields for known in types.named.values() if isinstance(known, Record))
    groups = [[(known.name, known.aliases) for known in types.named.values()]]
    groups += [[(each.name, each.aliases) for each in fields] for fields in records]
    return any(_is_twice(name for own, aliases in group for name in {own, *aliases}) for group in groups)


def _branches_are_alike(types: Types) -> bool:
    named = ([each.name for each in union.branches if isinstance(each, Named)] for union in types.unions())
    return any(_is_twice(map(short, names)) for names in named)


def _is_twice(names: Iterable[str]) -> bool:
    listed = list(names)
    return len({*listed}) < len(listed)
