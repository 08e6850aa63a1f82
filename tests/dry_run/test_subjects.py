"""A new name of a store is a new subject in the Schema Registry: `plan` looks whether the new schema is there."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from migrate import Spec
from migrate.batch.preflight.check import CheckReport
from migrate.dry_run.changelog_plan import subject_checks
from tests.shared.registry_server import Registry, Version, serving
from tests.support import KEY_VALUE

SCHEMA = json.dumps({"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]})
SUBJECT = "app-kv2-changelog-value"


def _checked(registry: str, folder: Path) -> CheckReport:
    avro = {"serde": "avro", "frame": "confluent", "registry": registry}
    spec = Spec(
        name="subjects",
        work_dir=folder,
        source={"format": KEY_VALUE, "path": folder, "store": "kv"},
        target={"format": KEY_VALUE, "store": "kv2"},
        changelog={"bootstrap": "broker:9092"},
        conversion={"value": {"from": {**avro, "subject": "app-kv-changelog-value"}, "to": {**avro, "id": 2}}},
    )
    at = SimpleNamespace(spec=spec, changelogs=[SimpleNamespace(new_topic="app-kv2-changelog")] * 2)
    (found,) = subject_checks(cast("Any", at))
    return found


def test_a_schema_that_the_new_subject_lacks_is_named(tmp_path: Path) -> None:
    with serving(Registry({SUBJECT: [Version(1, SCHEMA), Version(2, SCHEMA, is_deleted=True)]})) as registry:
        found = _checked(registry.url, tmp_path)
        assert (found.outcome, found.detail) == ("warning", f"schema 2 is not registered under {SUBJECT}")
        assert "auto.register.schemas=false" in found.fix
        registry.subjects = {}
        assert _checked(registry.url, tmp_path).outcome == "warning"
        registry.subjects = {SUBJECT: [Version(2, SCHEMA)]}
        assert _checked(registry.url, tmp_path).outcome == "ok"
        registry.authorization = "Basic secret"
        assert "as far as is known: " in _checked(registry.url, tmp_path).detail
