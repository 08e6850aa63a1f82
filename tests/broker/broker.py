"""Starts and ends a Kafka broker of one node (KRaft) on free ports of this machine, with its data in a given folder.

Clients of `bootstrap` need no credentials and may do everything; those of `secure_bootstrap` are users with passwords
(SASL/PLAIN), and may do what ACLs allow them: nothing at first.
"""

import hashlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.live.maven import JVM_FLAGS, ProgramError, cache_locked, run_maven

VERSION = "4.3.1"
USERS = {"guest": "guest-secret", "worker": "worker-secret"}
"""Users of the secure listener, with their passwords."""

_POM = Path(__file__).parent / "pom.xml"
_CLUSTER = "c3RhdGVmZXJyeS10ZXN0cw"
_START_SECONDS = 90.0
_UNTIL_STDIN_ENDS = '"$@" </dev/null & read -r _; kill -KILL $!'
"""The broker ends with the process that started it, however that ends: its end of the pipe is closed then."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A running broker."""

    bootstrap: str
    secure_bootstrap: str
    log: Path
    process: subprocess.Popen[bytes]

    def properties(self, user: str) -> dict[str, str]:
        """A client's properties for the secure listener."""
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": USERS[user],
        }

    def kill(self) -> None:
        """End it at once, as a power cut does; again: nothing happens."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def pause(self) -> None:
        """Let it answer nothing until it is resumed; its connections stay."""
        os.killpg(self.process.pid, signal.SIGSTOP)
        while not all(state == "T" for state in self._states()):  # a busy machine stops its threads one by one
            time.sleep(0.01)

    def _states(self) -> Iterator[str]:
        """The state of each thread of the broker's processes, as in proc(5)."""
        for file in Path("/proc").glob("[0-9]*/task/[0-9]*/stat"):
            with suppress(OSError):
                state, _, group, *_ = file.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
                if int(group) == self.process.pid:
                    yield state

    def resume(self) -> None:
        """Let it go on after a pause."""
        os.killpg(self.process.pid, signal.SIGCONT)


def require_broker() -> None:
    """Skip the calling test where Java or Maven is missing, or fail it where live tests are required."""
    missing = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    if not missing:
        return
    reason = f"tests with a Kafka broker need {', '.join(missing)} on the PATH"
    if os.environ.get("REQUIRE_LIVE") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def running_broker(folder: Path, port: int = 0, settings: str = "") -> Iterator[Broker]:
    """A broker that answers, with its data in a new folder; it is killed at the end. Raises ProgramError.

    `settings`: lines that take precedence over the broker's other ones.
    """
    ports = [port or _free_port(), _free_port(), _free_port()]
    built = _built()
    data = folder / "data"
    shutil.copytree(built / "data", data)
    (folder / "server.properties").write_text(_settings(data, ports) + settings, encoding="utf-8")
    log = folder / "broker.log"
    command = _java(built, "kafka.Kafka", str(folder / "server.properties"))
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["sh", "-c", _UNTIL_STDIN_ENDS, "sh", *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    broker = Broker(f"localhost:{ports[0]}", f"localhost:{ports[1]}", log, process)
    try:
        _wait_until_it_answers(broker)
        yield broker
    finally:
        broker.kill()
        assert process.stdin is not None
        process.stdin.close()


def _wait_until_it_answers(broker: Broker) -> None:
    deadline = time.monotonic() + _START_SECONDS
    host, _, port = broker.bootstrap.partition(":")
    while time.monotonic() < deadline and broker.process.poll() is None:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
            if admin.list_topics(timeout=10).brokers:
                admin.describe_consumer_groups(["any"])["any"].result(10)  # which makes the topic of all offsets
                return
        except (OSError, KafkaException):
            pass
        time.sleep(0.1)
    raise ProgramError(f"the broker does not answer:\n{broker.log.read_text(encoding='utf-8')[-4000:]}")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _built() -> Path:
    """The folder with the classpath and a formatted data folder, made at the first call."""
    digest = hashlib.sha256(_POM.read_bytes() + Path(__file__).read_bytes()).hexdigest()[:12]
    with cache_locked("kafka-broker") as cache:
        built = cache / "kafka-broker" / f"{VERSION}-{digest}"
        if not built.exists():
            built.parent.mkdir(exist_ok=True)
            with tempfile.TemporaryDirectory(dir=built.parent) as scratch:
                target = Path(scratch) / "target"
                target.mkdir()
                _build(target)
                target.rename(built)
    return built


def _build(target: Path) -> None:
    properties = {"kafka.version": VERSION, "mdep.outputFile": str(target / "classpath")}
    run_maven(_POM, ["dependency:build-classpath"], properties)
    settings = target / "server.properties"
    settings.write_text(_settings(target / "data", [1, 2, 3]), encoding="utf-8")
    command = _java(target, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(settings))
    result = subprocess.run(command, capture_output=True, text=True, timeout=_START_SECONDS, check=False)
    if result.returncode != 0:
        raise ProgramError(f"the broker's storage could not be formatted:\n{result.stdout}{result.stderr}")


def _java(built: Path, *arguments: str) -> list[str]:
    return ["java", *JVM_FLAGS, "-cp", (built / "classpath").read_text(encoding="utf-8").strip(), *arguments]


def _settings(data: Path, ports: list[int]) -> str:
    clients, secure, controller = ports
    users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    return f"""
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@localhost:{controller}
controller.listener.names=CONTROLLER
listeners=CLIENT://localhost:{clients},SECURE://localhost:{secure},CONTROLLER://localhost:{controller}
advertised.listeners=CLIENT://localhost:{clients},SECURE://localhost:{secure}
listener.security.protocol.map=CLIENT:PLAINTEXT,SECURE:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=CLIENT
sasl.enabled.mechanisms=PLAIN
listener.name.secure.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required {users};
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
log.dirs={data}
log.cleaner.dedupe.buffer.size=8388608
auto.create.topics.enable=false
default.replication.factor=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.streams.initial.rebalance.delay.ms=0
num.network.threads=2
num.io.threads=2
"""
