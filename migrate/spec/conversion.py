"""The conversion that a spec describes, on the driver and on executors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from formats import Conversion, get_format
from migrate.errors import SpecError
from migrate.spec.allowed import KEY_CHANGE
from migrate.spec.conversion_ref import ConversionRef
from migrate.spec.fingerprint import with_fingerprint
from migrate.spec.spec import Spec
from migrate.spec.user_function import load_function

if TYPE_CHECKING:
    from formats.serde import Serde
    from migrate.spec.serdes import PayloadSerdes


def conversion_ref(spec: Spec) -> ConversionRef:
    """The conversion that a spec describes. Raises SpecError."""
    section = spec.conversion
    files = tuple(str(spec.resolve(path)) for path in section.py_files)
    _check_files("py_files", files, hint="name a .py file, or a .zip of a package")
    data = [str(spec.resolve(path)) for path in section.files]
    _check_files("files", data, hint="name a file that the function reads, by its path from the spec")
    is_named = isinstance(section.function, str)
    is_placed = spec.target.partitions is not None and section.key is not None  # each record by its new key
    ref = ConversionRef(
        source=spec.source.format,
        target=spec.target.format,
        default_timestamp_ms=section.default_timestamp_ms,
        function=section.function,
        search_path=(*files, str(spec.base_dir)) if is_named else (),
        keys_may_change=KEY_CHANGE in section.allow or is_placed,
        may_lose=frozenset(section.allow),
        key=_serdes(spec, "key"),
        value=_serdes(spec, "value"),
        files=tuple(path.as_posix() for path in section.files) if is_named else (),
    )
    return ref if ref.function is None else with_fingerprint(ref)


def ref_of_store(spec: Spec, store: str, ref: ConversionRef) -> ConversionRef:
    """The conversion of one store: `ref`, the spec's, unless the store has a format of its own, which it keeps."""
    has_own = any(each.name == store for each in spec.source.moved_stores)
    return conversion_ref(spec.of_store(store)) if has_own else ref


def _check_files(key: str, files: Iterable[str], *, hint: str) -> None:
    for file in files:
        if not Path(file).is_file():
            raise SpecError(f"[conversion] {key}: {file} is not a file", hint=hint)


def _serdes(spec: Spec, part: Literal["key", "value"]) -> PayloadSerdes | None:
    section = spec.conversion.key if part == "key" else spec.conversion.value
    if section is None:
        return None
    from migrate.spec.schema_registry import load_responses
    from migrate.spec.serdes import load_serdes

    return load_serdes(section, part, spec.resolve, load_responses(spec.home))


@lru_cache(maxsize=8)
def load_conversion(ref: ConversionRef) -> Conversion:
    """The conversion that a ref describes. Raises SpecError where the function cannot be imported."""
    source, target = get_format(ref.source), get_format(ref.target)
    if ref.key is not None:
        source = replace(source, key_serde=_read(ref.key, ref))
        target = replace(target, key_serde=ref.key.target)
    if ref.value is not None:
        source = replace(source, value_serde=_read(ref.value, ref))
        target = replace(target, value_serde=ref.value.target)
    return Conversion(
        source=source,
        target=target,
        default_timestamp_ms=ref.default_timestamp_ms,
        function=None if ref.function is None else load_function(ref),
        keys_may_change=ref.keys_may_change,
        may_lose=ref.may_lose,
    )


def _read(serdes: PayloadSerdes, ref: ConversionRef) -> Serde:
    """Without a function Avro goes straight to the new schema; a function sees each value as it was written."""
    from formats.serdes.conversions import resolving  # loads Avro

    return serdes.source if ref.function is not None else resolving(serdes.source, serdes.target)
