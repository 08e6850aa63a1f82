"""Warnings about a migration before it starts: defects of the owning system, and risks."""

from __future__ import annotations

from migrate.batch.source.source import is_another_system, source_system
from migrate.spec.conversion_ref import ConversionRef
from migrate.spec.spec import Spec
from migrate.stores.carry_over import left_out
from migrate.stores.rocksdb.layout import is_rocksdb
from migrate.systems import get_system
from migrate.systems.families import families_to_carry


def spec_warnings(spec: Spec, ref: ConversionRef) -> list[str]:
    """Warnings, a sentence each, that do not keep a run from starting."""
    source, target = spec.source_format, spec.target_format
    found = [
        f"{store!r} has a name like {kind.name}, which is not to be converted: {kind.reason}"
        for store in spec.source.store_names
        if (kind := source_system(spec).likely_unsupported(store)) is not None
    ]
    found += get_system(target.system).format_warnings(source, target)
    carried = families_to_carry(target, spec.target.version, target.metadata_families)
    if source.system == target.system and len(carried) < len(target.metadata_families):
        found.append(
            f"version {spec.target.version} opens a task only where none of its stores has the column family "
            f"{target.metadata_families[0]!r}: migrate every store that the application has opened with a newer one"
        )
    if spec.has_segments and spec.source.retention_ms is None:
        found.append(
            "every segment keeps its records: the application must open the new store with the retention that the old "
            "one has; give retention_ms in [source] and [target] to change it"
        )
    found += _directory_warnings(spec)
    if ref.key is not None or ref.value is not None:
        from migrate.spec.serdes import payload_warnings

        found += payload_warnings(ref.key, ref.value, has_function=ref.function is not None)
    return found


def _directory_warnings(spec: Spec) -> list[str]:
    """Warnings about what the new state directory lacks of the old one."""
    if is_another_system(spec):
        left = _left_behind(spec)
        sentence = (
            f"stores that the spec does not name stay behind: {', '.join(left)}; the application finds the new "
            "directory without them, and without their changelog positions"
        )
        return [sentence] if left else []
    if spec.target_path is None or not spec.source_path.is_dir():
        return []
    return [
        f"{path} is {kind}: it is no state, and the new state directory goes without it"
        for path, kind in left_out(spec.source_path)
    ]


def _left_behind(spec: Spec) -> list[str]:
    """Stores that the spec does not name: another system's directory gets none of them."""
    path = spec.source_path
    found = source_system(spec).store_directories(path) if path.is_dir() else ()
    return sorted({each.store for each in found if is_rocksdb(each.path)} - {*spec.source.store_names})
