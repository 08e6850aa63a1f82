"""`[source] partitioner`: what put each key into its store partition."""

from __future__ import annotations

from functools import lru_cache, partial

from formats.function import describe_error
from formats.partitioners import PARTITIONERS, Partitioner
from migrate.errors import SpecError
from migrate.spec.conversion_ref import ConversionRef
from migrate.spec.fingerprint import with_fingerprint
from migrate.spec.spec import Spec
from migrate.spec.user_function import load_function

_SETTING = "[source] partitioner"
_PLACE = "put the module beside the spec"


def partitioner_ref(spec: Spec) -> ConversionRef | None:
    """The user's partitioner, as workers get it; None: it is a known one, or there is none. Raises SpecError."""
    name = spec.partitioner
    if spec.target.partitions is None or name in PARTITIONERS:
        return None
    place = (str(spec.base_dir),)
    return with_fingerprint(ConversionRef(spec.source.format, spec.source.format, function=name, search_path=place))


@lru_cache(maxsize=8)
def load_partitioner(name: str, ref: ConversionRef | None) -> Partitioner:
    """From a serialized key and a number of partitions to the key's partition. Raises SpecError."""
    return PARTITIONERS[name] if ref is None else load_function(ref, _SETTING, _PLACE)


def checked_partitioner(name: str, ref: ConversionRef | None) -> Partitioner | None:
    """The user's partitioner, which is asked twice for each key; None: it is a known one. Raises SpecError."""
    return None if ref is None else partial(checked_partition, name, load_partitioner(name, ref))


def checked_partition(name: str, of: Partitioner, key: bytes, partitions: int) -> int:
    """The partition that a user's function chooses. Raises SpecError for an answer that is none."""
    try:
        first, again = of(key, partitions), of(key, partitions)
    except Exception as error:
        raise SpecError(
            f"{_SETTING} {name!r} fails for the key {key.hex() or '(empty)'}: {describe_error(error)}",
            hint="it gets (key: bytes, partitions: int): every key as its serde wrote it",
        ) from error
    if type(first) is not int or not 0 <= first < partitions:
        raise SpecError(
            f"{_SETTING} {name!r} answers {first!r} for the key {key.hex() or '(empty)'} and {partitions} partitions",
            hint=f"it gets (key: bytes, partitions: int) and must return a number from 0 to {partitions - 1}",
        )
    if first != again:
        raise SpecError(
            f"{_SETTING} {name!r} answers {first} and then {again!r} for the same key {key.hex() or '(empty)'}",
            hint="a partitioner must always answer the same for the same key and number of partitions",
        )
    return first
