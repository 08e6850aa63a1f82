"""The rights that docs/changelogs.md lists suffice for a whole migration, there and back."""

from dataclasses import replace
from pathlib import Path

import pytest

from migrate import abandon, cutover, doctor, finalize, rollback, run
from migrate.spec.spec import Spec
from tests.batch.switch.switched import Switched
from tests.broker.broker import Broker
from tests.broker.rights import Rights, allow

WRITTEN = {
    "new-topic": {
        "old": ["READ", "DESCRIBE_CONFIGS", "DELETE"],
        "new": ["CREATE", "READ", "WRITE", "DESCRIBE_CONFIGS", "DELETE"],
    },
    "append": {"old": ["READ", "WRITE", "DESCRIBE_CONFIGS"], "new": []},
}


def _rights(app: Switched) -> Rights:
    return {
        ("TOPIC", app.topic): WRITTEN[app.way]["old"],
        ("TOPIC", f"{app.name}-orders2-changelog"): WRITTEN[app.way]["new"],
        ("TOPIC", f"{app.name}-orders-repartition"): ["DESCRIBE"] if app.way == "new-topic" else [],
        ("TOPIC", app.repartition): ["READ", "DESCRIBE_CONFIGS"],
        ("TOPIC", app.input): ["READ", "DESCRIBE_CONFIGS"],
        ("GROUP", app.name): ["READ"],
        ("GROUP", f"stateferry-{app.name}"): ["READ"],
        ("TRANSACTIONAL_ID", "stateferry-*"): ["WRITE"],
    }


def _worker(app: Switched, broker: Broker, rights: Rights) -> Spec:
    """The migration by a user who has these rights alone, of an application that has stopped."""
    app.prepare()
    properties = broker.properties("worker").items()
    (app.base / "client.properties").write_text("".join(f"{name}={value}\n" for name, value in properties))
    allow(broker, rights)
    section = {"bootstrap": broker.secure_bootstrap, "config": "client.properties", "way": app.way}
    return replace(app, sections={"changelog": section}).spec


@pytest.mark.parametrize("way", list(WRITTEN))
def test_the_rights_of_each_way_suffice(way: str, broker: Broker, tmp_path: Path) -> None:
    app = Switched(f"rights-{way}", tmp_path, broker, way=way)
    spec = _worker(app, broker, _rights(app))
    run(spec)
    assert cutover(spec).warnings == ()
    app.go_on()
    rollback(spec)
    assert app.is_old()
    assert app.passes_over_repartitioned()
    abandon(spec)
    run(spec)
    cutover(spec)
    assert finalize(spec, delete_topic=way == "new-topic").state == "finalized"


def test_offsets_that_the_broker_hides_are_said_to_be_missed(broker: Broker, tmp_path: Path) -> None:
    app = Switched("hidden", tmp_path, broker)
    inputs = (app.input, app.repartition)
    spec = _worker(app, broker, {each: its for each, its in _rights(app).items() if each[1] not in inputs})
    (found,) = [each for each in doctor(spec).checks if each.name == "changelog.authorised"]
    assert (found.outcome, "rollback could set none back" in found.detail) == ("warning", True)
