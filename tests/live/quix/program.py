"""A real application of Quix Streams, in a process of its own: `python -m tests.live.quix.program SETTINGS N SECONDS`.

It keeps the sum of the inputs of each key. `SETTINGS` is JSON of `Settings`. It ends once it has handled `N`
messages and none has come for `SECONDS`, and prints JSON: how many records it has recovered, and why it failed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

PARTITIONS = 2


@dataclass(frozen=True, slots=True)
class Settings:
    """A version of the application, where it runs and how."""

    bootstrap: str
    group: str
    state_dir: Path
    is_new: bool = False
    """The version whose sums are objects `{"sum": n}`; else they are numbers."""
    guarantee: str = "at-least-once"
    ttl_seconds: int = 0
    has_changelog: bool = True

    @property
    def input(self) -> str:
        return f"{self.group}-input"

    @property
    def changelog(self) -> str:
        return f"changelog__{self.group}--{self.input}--default"

    @property
    def home(self) -> Path:
        """The group's directory."""
        return self.state_dir / self.group

    def partition(self, number: int) -> Path:
        return self.home / "default" / self.input / str(number)

    @property
    def new(self) -> Settings:
        return replace(self, is_new=True)

    def run(self, count: int = 0, seconds: float = 2.0) -> int:
        """Run it; the number of records that it has recovered."""
        given = json.dumps(asdict(self) | {"state_dir": str(self.state_dir)})
        command = [sys.executable, "-m", "tests.live.quix.program", given, str(count), str(seconds)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert ended.returncode == 0, ended.stderr[-4000:]
        said = json.loads(ended.stdout.splitlines()[-1])
        assert said["failed"] is None, said["failed"]
        assert said["handled"] == count
        return int(said["recovered"])


def main(settings: Settings, count: int, seconds: float) -> None:
    """Run the application as its authors would write it."""
    from quixstreams import Application
    from quixstreams.state.recovery import RecoveryPartition

    seen = {"recovered": 0, "handled": 0}
    apply: Any = RecoveryPartition.recover_from_changelog_message

    def counting(partition: Any, changelog_message: Any) -> None:  # noqa: ANN401 - of Quix Streams
        seen["recovered"] += 1
        apply(partition, changelog_message=changelog_message)

    setattr(RecoveryPartition, "recover_from_changelog_message", counting)  # noqa: B010 - mypy allows no other
    app = Application(
        broker_address=settings.bootstrap,
        consumer_group=settings.group,
        state_dir=str(settings.state_dir),
        auto_offset_reset="earliest",
        processing_guarantee=settings.guarantee,  # type: ignore[arg-type]
        commit_interval=0.5,
        loglevel="WARNING",
        use_changelog_topics=settings.has_changelog,
    )
    topic = app.topic(settings.input, key_deserializer="bytes", value_deserializer="json")
    failed = None

    def add(value: int | None, state: Any) -> None:  # noqa: ANN401 - of Quix Streams
        nonlocal failed
        before = state.get("total")
        if before is not None and isinstance(before, dict) != settings.is_new:
            failed = f"the state has the value {before!r}, which this version does not know"
        lasting = {"ttl": timedelta(seconds=settings.ttl_seconds)} if settings.ttl_seconds else {}
        seen["handled"] += 1
        if value is None:
            state.delete("total")
        elif settings.is_new:
            state.set("total", {"sum": value + (before or {"sum": 0})["sum"]}, **lasting)
        else:
            state.set("total", value + (before or 0), **lasting)

    app.dataframe(topic).update(add, stateful=True)
    app.run(count=count, timeout=seconds)
    sys.stdout.write(json.dumps({**seen, "failed": failed}) + "\n")


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    main(Settings(**given | {"state_dir": Path(given["state_dir"])}), int(sys.argv[2]), float(sys.argv[3]))
