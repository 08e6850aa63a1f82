"""A spec without `[source]`: a new store that is made from the rows of a table.

Inside, it is a migration of an empty store, in the migration's folder, whose records are the rows, sorted.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from formats import get_format
from migrate.spec.sections import ChangelogSection, ConversionSection, SourceSection, TargetSection

_MOVED = ("store", "subtopology", "retention_ms", "segment_ms")
"""Keys of `[target]` that say how the empty store is made, as those of `[source]` do for an old one."""


def with_rows_source(spec: dict[str, Any]) -> dict[str, Any]:
    """The spec with the `[source]` that stands for rows, where it has none, and `[target]` has the number of tasks."""
    if isinstance(old := spec.get("source"), dict) and old.get("rows") is not None:
        raise ValueError("[source] rows: leave [source] out, and a new store is made from rows")
    target = _keys(spec.get("target"))
    if old is not None or "format" not in target or not {"partitions", "subtopology"} & {*target}:
        return spec
    conversion = _keys(spec.get("conversion"))
    for part in ("key", "value"):
        if isinstance(section := conversion.get(part), dict) and "to" in section:
            if "from" in section:
                raise ValueError(f"[conversion.{part}] from: rows have types of their own, and `to` alone writes them")
            conversion[part] = {"from": _old_serde(section["to"]), "to": section["to"]}
    source = {"rows": True, "path": "", "format": target["format"]}
    source |= {name: target.pop(name) for name in _MOVED if name in target}
    run = {"sort": True, **_keys(spec.get("run"))}
    return {**spec, "source": source, "target": target, "conversion": conversion, "run": run}


def _keys(section: object) -> dict[str, Any]:
    if isinstance(section, BaseModel):
        return section.model_dump(by_alias=True, exclude_unset=True)
    return dict(section) if isinstance(section, dict) else {}


def _old_serde(new: object) -> object:
    """The serde that reads what a new one writes."""
    if not isinstance(new, dict):
        return new
    old = {name: value for name, value in new.items() if name not in ("id", "guid")}
    if "inner" in new:
        old["inner"] = _old_serde(new["inner"])
    if new.get("serde") != "avro":
        return old
    if (name := new.get("id", new.get("guid"))) is None:
        return old
    if "schema" not in new:
        return {**old, "ids": [name]}
    del old["schema"]
    return {**old, "schemas": {str(name): new["schema"]}}


def check_rows_source(
    source: SourceSection,
    target: TargetSection,
    conversion: ConversionSection,
    changelog: ChangelogSection | None,
) -> None:
    """Raises ValueError for a store that cannot be made from rows, as far as the spec tells."""
    if not source.rows:
        if target.subtopology is not None:
            raise ValueError("[target] subtopology goes with a spec without [source], whose store is made from rows")
        return
    known = get_format(target.format)
    problems = {
        "[target] store names it": source.store is None,
        "[target] path says where the state directory is to be": target.path is None,
        "[target] partitions is the number of its tasks: that of the input topics": target.partitions is None,
        "[target] subtopology is the first number of its tasks, as in 0_0 and 0_1: subtopology = 0 (the description of "
        "the topology shows it)": source.subtopology is None,
        f"one of {known.id} cannot be yet": known.kind == "versioned",
        "[target] retention_ms (and segment_ms, where the application sets it) says which segments records belong "
        "to": known.is_segmented and source.retention_ms is None,
        "[target] retention_ms and segment_ms are of windowed and session stores": not known.is_segmented
        and (source.retention_ms is not None or source.segment_ms is not None),
        "[conversion] function has no old record: change the rows instead": conversion.function is not None,
        "[changelog] way, timestamps and missing are about an old changelog": changelog is not None
        and (changelog.way, changelog.timestamps, changelog.missing) != (None, "default", None),
    }
    for why in (why for why, is_so in problems.items() if is_so):
        raise ValueError(f"a spec without [source] makes a new store from rows: {why}")
