"""What reaches a broker is in no file of the migration, in no report, in no log and in no error."""

import logging
from pathlib import Path

import pytest
from click.testing import CliRunner

from migrate.cli.main import main
from migrate.kafka.cluster import Cluster
from migrate.kafka.connection import Connection
from tests.broker.broker import USERS, Broker
from tests.broker.rights import allow
from tests.support import KEY_VALUE, TIMESTAMPED, make_store

SECRET = USERS["worker"]
SPEC = """
name = "secrets"
work_dir = "work"
[source]
format = "{source}"
path = "secrets-app"
store = "orders"
[target]
format = "{target}"
store = "orders-v2"
[conversion]
function = "tests.batch.changelog.support:convert"
[changelog]
bootstrap = "{bootstrap}"
config = "client.properties"
application = "stopped"
"""
COMMANDS = (
    "plan --html plan.html",
    "plan --json",
    "doctor --no-spark",
    "run --no-spark -vv",
    "verify --no-spark",
    "status --json",
    "report --html report.html",
)


def test_no_property_of_the_client_is_written_or_shown(
    tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="stateferry")
    _application(tmp_path, broker)
    monkeypatch.chdir(tmp_path)
    shown = ""
    for password, commands in (("a-wrong-secret", ("plan --debug", "run --no-spark --debug")), (SECRET, COMMANDS)):
        monkeypatch.setenv("BROKER_PASSWORD", password)
        for command in commands:
            verb, *options = command.split()
            result = CliRunner().invoke(main, [verb, "migration.toml", *options])
            assert (result.exit_code == 0) == (password == SECRET), result.output
            shown += result.output + result.stderr
    assert "Authentication failed" in shown  # the wrong password was tried
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 20
    for secret in (SECRET, "a-wrong-secret"):
        assert secret not in shown + caplog.text
        assert [path for path in written if secret.encode() in path.read_bytes()] == []


def _application(folder: Path, broker: Broker) -> None:
    properties = broker.properties("worker") | {"sasl.password": "${BROKER_PASSWORD}"}
    lines = (f"{name}={value}\n" for name, value in properties.items())
    (folder / "client.properties").write_text("".join(lines), encoding="utf-8")
    text = SPEC.format(source=KEY_VALUE, target=TIMESTAMPED, bootstrap=broker.secure_bootstrap)
    (folder / "migration.toml").write_text(text, encoding="utf-8")
    make_store(folder / "secrets-app/0_0/rocksdb/orders", {b"%d" % each: b"value" for each in range(10)})
    (folder / "secrets-app/0_0/.checkpoint").write_text("0\n1\nsecrets-app-orders-changelog 0 -1\n", encoding="ascii")
    with Cluster(Connection(broker.bootstrap)) as cluster:
        cluster.create_topic(
            "secrets-app-orders-changelog", partitions=1, replication=1, settings={"cleanup.policy": "compact"}
        )
    names = [("TOPIC", "secrets-app*"), ("GROUP", "secrets-app*"), ("GROUP", "stateferry*")]
    allow(broker, {each: ["ALL"] for each in (*names, ("TRANSACTIONAL_ID", "stateferry*"))})
