"""A command that makes an old store from its changelog is killed at random moments, and goes on each time."""

import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from migrate import load_spec, status, verify
from tests.batch.changelog.support import App
from tests.broker.broker import Broker
from tests.support import TIMESTAMPED, read_family, to_toml

IN_CI, LONG = 6, 40
"""Kills."""
_RUN = "import sys, migrate; migrate.run(migrate.load_spec(sys.argv[1]))"


def _spec_file(app: App) -> Path:
    file = app.base / "lost.toml"
    source = {"format": TIMESTAMPED, "store": "orders", "changelog": True, "subtopology": 0}
    content = {
        "name": "lost",
        "work_dir": "work",
        "source": source,
        "target": {"format": TIMESTAMPED, "path": f"new/{app.name}"},
        "changelog": {"bootstrap": app.broker.bootstrap, "application_id": app.name, "application": "stopped"},
        "run": {"chunk_size": "16 KiB"},
    }
    file.write_text(to_toml(content), encoding="utf-8")
    return file


def _run(file: Path, *, for_seconds: float | None = None) -> bool:
    """Whether it ended before it was killed."""
    with subprocess.Popen([sys.executable, "-c", _RUN, str(file)], stderr=subprocess.PIPE) as command:
        try:
            _, said = command.communicate(timeout=for_seconds or 100)
        except subprocess.TimeoutExpired:
            command.kill()
            return False
    assert command.returncode == 0, said
    return True


def _entries(application: Path) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for file in sorted(application.rglob("CURRENT")):
        found |= read_family(file.parent, "keyValueWithTimestamp")
    return found


@pytest.mark.parametrize("wanted", [IN_CI, LONG])
def test_nothing_is_lost(wanted: int, broker: Broker, tmp_path: Path) -> None:
    app = App(f"restoring-kills-{wanted}", tmp_path, broker, count=3000).make()
    there, file, kills = tmp_path / app.name, _spec_file(app), 0
    was, rng = _entries(there), random.Random(wanted)
    spec = load_spec(file)
    assert spec.target_path is not None
    since = time.monotonic()
    assert _run(file)
    longest = time.monotonic() - since
    while kills < wanted:
        shutil.rmtree(spec.home)
        shutil.rmtree(spec.target_path.parent)
        while not _run(file, for_seconds=rng.uniform(0.5, longest) if kills < wanted else None):
            kills += 1
        assert _entries(spec.target_path) == was
        assert status(spec).state == "published"
        assert verify(spec).verification.ok
