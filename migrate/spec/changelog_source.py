"""`[source] changelog = true`: an old store that is made from its changelog, and what a spec must say for it."""

from __future__ import annotations

from formats import get_format
from migrate.spec.sections import ChangelogSection, SourceSection, TargetSection

RESTORED = "restored"
"""The folder of the migration in which such a store lies."""
_NO_BROKER = 'only a section [changelog] with bootstrap = "host:port" says where that is'
_NO_SUBTOPOLOGY = (
    "no topic tells the first number of its tasks: [source] subtopology = 0 for tasks like 0_0 and 0_1 (the "
    "description of the topology shows it, or a task directory on any host)"
)
_NO_RETENTION = (
    "nothing but [source] retention_ms (and segment_ms, where the application sets it) says which segments its records "
    "belong to, and what has expired"
)


def check_changelog_source(source: SourceSection, target: TargetSection, changelog: ChangelogSection | None) -> None:
    """Raises ValueError for a store that cannot be made from its changelog, as far as the spec tells."""
    if not source.changelog:
        if source.subtopology is not None and not source.rows:
            raise ValueError("[source] subtopology has no effect without [source] changelog = true")
        return
    stores = [(get_format(source.format), source.retention_ms)]
    stores += [(get_format(each.format), each.retention_ms) for each in source.moved_stores]
    is_named = changelog is None or changelog.application_id is not None or bool(source.path.name)
    problems = {
        _NO_BROKER: changelog is None,
        "[source] store says which one it is": not source.store_names,
        'topics are named by the application: [changelog] application_id = "..."': not is_named,
        "no application's directory has its place: name a new one in [target] path": target.path is None,
        _NO_SUBTOPOLOGY: source.subtopology is None,
        "there are no task directories to leave out": bool(source.leave_out),
        _NO_RETENTION: any(
            (known.is_segmented or known.kind == "versioned") and retention_ms is None for known, retention_ms in stores
        ),
    }
    for why in (why for why, is_so in problems.items() if is_so):
        raise ValueError(f"[source] changelog = true: the old store is made from its changelog, and {why}")
