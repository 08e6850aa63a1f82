"""A row of the table: changes of the spec and the disk, and the expected result of each verb."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import migrate
from migrate.errors import ExitCode
from tests.bad_input.support import Migration, Stores, app_migration, expected_orders, raw_migration, raw_records
from tests.batch.switch.support import StopAt, StoppedError
from tests.dry_run.segmented import TIMESTAMPED_WINDOW, WINDOW, Families, hours, make_segments
from tests.shared.commands import Commands, InProcess
from tests.support import read_families

DONE, USAGE, FAILED, REFUSED = ExitCode.DONE, ExitCode.USAGE, ExitCode.FAILED, ExitCode.REFUSED
RECORDS = 2000
"""Number of records in a RocksDB directory."""
Around = AbstractContextManager[object]
Do = Callable[[Migration], object]


def nothing(_: Migration) -> None:
    """Changes nothing on the disk."""


@dataclass(frozen=True, slots=True)
class Situation:
    """`run` ends with `code` and these words, and so do `plan`, with and without `--full`, and `doctor` before it."""

    name: str
    make: Callable[[Path], Migration]
    code: ExitCode = DONE
    said: tuple[str, ...] = ()
    """`{folder}`, `{source}`, `{home}` and `{target}` stand for the migration's paths; `!words` must not be said."""
    do: Do = nothing
    """The change of the disk."""
    sections: Mapping[str, object] = field(default_factory=dict)
    """The change of the spec, before that of the disk; None removes a key."""
    around: Callable[[Migration], Around] = lambda _: nullcontext()
    """A context in which the verbs run."""
    needs_records: bool = False
    """Only reading records shows it: `doctor` does not see it, and a run has created its folder by then."""
    plan: ExitCode | None = None
    """The exit code of `plan` and `doctor`, where only a run detects the problem."""
    doctor: ExitCode | None = None
    """The exit code of `doctor`, where it differs."""
    then: Do = nothing
    """Checks that the same command continues once the cause is gone."""

    def arrange(self, folder: Path) -> Migration:
        """The migration in this situation."""
        migration = self.make(folder)
        change_spec(migration, self.sections)
        self.do(migration)
        return migration

    def words(self, migration: Migration) -> list[str]:
        """The expected words for this migration."""
        paths = {"folder": migration.folder, "source": migration.source, "target": migration.target}
        return [fill(words, {**paths, "home": migration.home}) for words in self.said]


def fill(words: str, paths: Mapping[str, Path]) -> str:
    """The words, with each `{name}` of a path replaced; other braces stay."""
    for name, path in paths.items():
        words = words.replace(f"{{{name}}}", str(path))
    return words


def change_spec(migration: Migration, sections: Mapping[str, object]) -> None:
    """Merge these into the spec."""
    for name, value in sections.items():
        if not isinstance(value, dict):
            migration.spec[name] = value
            continue
        merged = {**migration.spec.get(name, {}), **value}
        migration.spec[name] = {key: each for key, each in merged.items() if each is not None}


def app(name: str, code: ExitCode = DONE, *said: str, **more: Any) -> Situation:  # noqa: ANN401
    """The store `orders` of a Kafka Streams application, plain to timestamped."""
    return _situation(name, lambda folder: app_migration(InProcess(), folder), code, said, more)


def raw(name: str, code: ExitCode = DONE, *said: str, **more: Any) -> Situation:  # noqa: ANN401
    """A RocksDB directory, copied in several chunks."""
    return _situation(name, lambda folder: raw_migration(InProcess(), folder, count=RECORDS), code, said, more)


def visits(
    name: str,
    code: ExitCode = DONE,
    *said: str,
    segments: Mapping[int, Families] | None = None,
    **more: Any,  # noqa: ANN401
) -> Situation:
    """Windows in five segments in each of two tasks, without timestamps to with timestamps."""
    return _situation(name, lambda folder: visits_migration(InProcess(), folder, segments), code, said, more)


def visits_migration(commands: Commands, folder: Path, segments: Mapping[int, Families] | None = None) -> Migration:
    """A windowed store."""
    source = make_segments(folder / "visits-app", "visits", hours() if segments is None else segments)
    sections = {
        "name": "test",
        "work_dir": "work",
        "source": {"format": WINDOW, "path": source.name, "store": "visits"},
        "target": {"format": TIMESTAMPED_WINDOW, "path": f"new/{source.name}"},
    }
    return Migration(commands, folder, source, sections)


_OWN = {"do", "around", "needs_records", "plan", "doctor", "then"}


def _situation(
    name: str, make: Callable[[Path], Migration], code: ExitCode, said: tuple[str, ...], more: dict[str, Any]
) -> Situation:
    own = {key: value for key, value in more.items() if key in _OWN}
    sections = {key: value for key, value in more.items() if key not in _OWN}
    return Situation(name, make, code, said, sections=sections, **own)


def stop(migration: Migration, event: str) -> None:
    """Run until this event, then stop as if killed."""
    with pytest.raises(StoppedError):
        migrate.run(migration.load(), on_event=StopAt(event))


def begun(do: Do = nothing, *, at: str = "chunk.committed", **sections: object) -> Do:
    """Run until this event first, then apply `do`, then change the spec."""

    def begin(migration: Migration) -> None:
        stop(migration, at)
        do(migration)
        change_spec(migration, sections)

    return begin


def published(stores: Callable[[], Stores], **totals: int) -> Do:
    """Check that the new stores hold exactly these records, and what the run has counted."""

    def check(migration: Migration) -> None:
        for path, records in stores().items():
            filled = [found for found in read_families(migration.target / path).values() if found]
            assert filled == ([dict(records)] if records else [])
        found = migrate.status(migration.load()).totals
        assert {name: getattr(found, name) for name in totals} == totals

    return check


def completes(mend: Do = nothing, stores: Callable[[], Stores] | None = None, **sections: object) -> Do:
    """Check that the same command migrates every record once the cause is gone."""

    def complete(migration: Migration) -> None:
        mend(migration)
        change_spec(migration, sections)
        whole = {".": raw_records(RECORDS)} if migration.source.name == "state" else expected_orders()
        migration.completes(whole if stores is None else stores())

    return complete
