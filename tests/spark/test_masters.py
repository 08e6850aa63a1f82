"""Masters that do not answer: the command says so and ends, and does not wait for ever."""

import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.spark.job import CLI, Job, completed

SILENT = {
    "standalone": "spark://127.0.0.1:{port}",
    "unknown host": "spark://no-such-host.invalid:7077",
    "yarn": "yarn",
    "kubernetes": "k8s://https://127.0.0.1:{port}",
}


@pytest.mark.parametrize("kind", SILENT)
@pytest.mark.parametrize("verb", ["run", "doctor"])
def test_a_master_that_does_not_answer_is_a_refusal(
    kind: str, verb: str, spec: Callable[..., Path], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]  # nobody listens there afterwards
    master = SILENT[kind].format(port=port)
    address = f"<property><name>yarn.resourcemanager.address</name><value>127.0.0.1:{port}</value></property>"
    (tmp_path / "yarn-site.xml").write_text(f"<configuration>{address}</configuration>")
    done = completed([*CLI, verb, str(spec()), "--master", master], tmp_path, HADOOP_CONF_DIR=str(tmp_path))
    assert done.exit_code == 6, done.errors
    said = " ".join(done.errors.split())
    assert f"no Spark application starts on {master}: " in said
    assert kind != "kubernetes" or "(java.net.ConnectException: Connection refused)" in said
    assert "this is a bug" not in done.errors and "Py4J" not in done.errors
    waiting = re.search(rf"^\S+ \w+: starting Spark on {re.escape(master)}, waiting for executors$", done.errors, re.M)
    assert waiting is not None


def test_under_spark_submit_a_malformed_master_is_a_usage_error(
    spec: Callable[..., Path], submit: Callable[..., Job]
) -> None:
    job = submit(spec(), "local[x]")
    assert job.exit_code == 2
    assert job.message.startswith("'local[x]' is no Spark master")
