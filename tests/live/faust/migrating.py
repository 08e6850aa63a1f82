"""The migration of an application's table and its changelog."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from migrate import Spec, load_spec
from tests.broker.topics import make_topic
from tests.live.faust.program import PARTITIONS, Settings
from tests.live.faust.worker import Inputs, Worker, rows_after, send


@dataclass(frozen=True, slots=True)
class Migration:
    """From the old version of an application to the new one; to its old topic, where the tables' names are equal."""

    old: Settings
    new: Settings
    source: str = "live"

    @property
    def file(self) -> Path:
        return self.old.datadir.parent / "migration.toml"

    def spec(self) -> Spec:
        """It is written, too."""
        is_appended = self.new.table == self.old.table
        self.file.write_text(
            f"""
name = "counts"
work_dir = "work"
[source]
format = "faust.table"
path = "{self.old.home}"
store = "{self.old.table}"
[target]
format = "faust.table"
{"" if is_appended else f'store = "{self.new.table}"'}
[conversion]
function = "tests.shared.conversions:in_object"
[changelog]
bootstrap = "{self.old.bootstrap}"
application_id = "{self.old.name}"
{'way = "append"' if is_appended else ""}
[run]
source = "{self.source}"
chunk_size = "4 KiB"
""",
            encoding="utf-8",
        )
        return load_spec(self.file)


def make_state(old: Settings, inputs: Inputs) -> None:
    """The old version has processed these inputs, and has been stopped."""
    make_topic(old.bootstrap, old.input, PARTITIONS)
    old.datadir.parent.mkdir(parents=True, exist_ok=True)  # Faust makes its own directory alone
    with Worker(old) as worker:
        send(old, inputs)
        worker.wait_holds(rows_after(inputs))
        worker.stop()
