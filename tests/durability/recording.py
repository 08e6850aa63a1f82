"""Migrations small enough to look at every call that they make."""

from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

from migrate.spec.spec import Spec, load_spec
from tests.durability.disk import Disk
from tests.durability.trace import Call, Op, record


@dataclass(frozen=True, slots=True)
class Recording:
    """One verb, traced, over everything below `base`."""

    base: Path
    calls: list[Call]
    begin: Disk
    """Before the first call. Never changed: `disk()` gives a copy to apply calls to."""

    @property
    def spec(self) -> Spec:
        return load_spec(self.base / "migration.toml")

    @property
    def home(self) -> Path:
        """The migration's own folder."""
        return self.spec.home

    def disk(self) -> Disk:
        """The disk as it was before the first call."""
        return deepcopy(self.begin)


def record_verb(base: Path, verb: str = "run", *, broken: tuple[str, ...] = (), begin: Disk | None = None) -> Recording:
    """Trace one verb. `begin`: what is below `base`, where not all of it is safe, as after a kill."""
    disk = Disk(base) if begin is None else deepcopy(begin)
    disk.restart_clock()
    events, log = base.with_name(base.name + ".events"), base.with_name(base.name + ".trace")
    program = ["-m", "tests.durability.program", str(base / "migration.toml"), str(events), verb, *broken]
    calls = [call for call in record(program, log=log, events=events) if call.op is Op.EVENT or disk.concerns(call)]
    return Recording(base, calls, disk)
