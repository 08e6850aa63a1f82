"""An application whose directory is lost, and whose changelog is at a real broker."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from migrate.spec.spec import Spec, parse_spec
from tests.batch.changelog.support import FAMILIES, TASKS, WINDOW, App
from tests.broker.broker import Broker
from tests.support import TIMESTAMPED, read_family

RETENTION = 30 * 86_400_000


@dataclass(frozen=True)
class Lost:
    """An application whose directory is gone: `there` is a copy of it."""

    app: App
    there: Path

    def spec(self, source: Mapping[str, Any] | None = None, target: Mapping[str, Any] | None = None) -> Spec:
        """As little as a spec needs: the same format on both sides."""
        app = self.app
        times = {"retention_ms": RETENTION, "segment_ms": 3_600_000} if app.kind == WINDOW else {}
        content = {
            "name": "lost",
            "work_dir": "work",
            "source": {
                "format": app.kind,
                "store": "orders",
                "changelog": True,
                "subtopology": 0,
                **times,
                **(source or {}),
            },
            "target": {"format": app.kind, "path": f"new/{app.name}", **(target or {})},
            "changelog": {
                "bootstrap": app.broker.bootstrap,
                "application_id": app.name,
                "application": "stopped",
            },
        }
        return parse_spec(content, base_dir=app.base)

    def entries(self, application: Path, store: str = "orders", kind: str | None = None) -> list[dict[bytes, bytes]]:
        """All that each task's store holds, read from disk."""
        found = []
        for task in TASKS:
            place = Path(task, store) if self.app.kind == WINDOW else Path(task, "rocksdb", store)
            databases = [file.parent for file in (application / place).rglob("CURRENT")]
            family = FAMILIES[kind or self.app.kind]
            found.append({key: value for each in databases for key, value in read_family(each, family).items()})
        return found


def make_lost(test: str, base: Path, broker: Broker, kind: str = TIMESTAMPED, count: int = 40) -> Lost:
    """The application is named after the test."""
    name = test.replace("[", "-").replace("]", "").replace("_", "-").replace(".", "-")[-40:].strip("-")
    app = App(name, base, broker, kind=kind, count=count).make()
    shutil.move(base / name, base / "there" / name)
    return Lost(app, base / "there" / name)
