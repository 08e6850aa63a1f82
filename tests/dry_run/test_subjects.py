"""A new name of a store is a new subject in the Schema Registry: `plan` looks whether the new schema is there."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from migrate import Spec
from migrate.batch.preflight.check import CheckReport
from migrate.dry_run.changelog_plan import subject_checks
from tests.shared.registry_server import Registry, Version, serving
from tests.support import KEY_VALUE

SCHEMA = json.dumps({"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]})
SUBJECT = "app-kv2-changelog-value"


def _checked(registry: str, folder: Path, *, in_list: bool = False) -> CheckReport:
    avro = {"serde": "avro", "frame": "confluent", "registry": registry}
    change: dict[str, Any] = {"from": {**avro, "subject": "app-kv-changelog-value"}, "to": {**avro, "id": 2}}
    if in_list:
        change = {side: {"serde": "list", "inner": inner} for side, inner in change.items()}
    spec = Spec(
        name="subjects",
        work_dir=folder,
        source={"format": KEY_VALUE, "path": folder, "store": "kv"},
        target={"format": KEY_VALUE, "store": "kv2"},
        changelog={"bootstrap": "broker:9092"},
        conversion={"value": change},
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


def test_the_schema_of_a_list_s_entries_is_looked_for_too(tmp_path: Path) -> None:
    with serving(Registry({SUBJECT: [Version(1, SCHEMA)]})) as registry:
        found = _checked(registry.url, tmp_path, in_list=True)
        assert (found.outcome, found.detail) == ("warning", f"schema 2 is not registered under {SUBJECT}")


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [(200, "5", "does not answer as a Schema Registry does"), (404, "nothing here", "is not there (HTTP 404)")],
)
def test_an_answer_of_another_program_is_told_as_one(status: int, body: str, said: str, tmp_path: Path) -> None:
    with serving(Registry(troubles=[(status, body)] * 2)) as registry:
        found = _checked(registry.url, tmp_path)
        assert found.outcome == "warning"
        assert "as far as is known: " in found.detail and said in found.detail
