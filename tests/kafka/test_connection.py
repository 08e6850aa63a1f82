"""The file of a client's properties: its mistakes are named by their line, its values are never shown."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from migrate.errors import SpecError
from migrate.kafka.connection import Connection, read_connection

SECRET = "s3cret-of-all"


def _read(folder: Path, text: str) -> Connection:
    (folder / "client.properties").write_text(text, encoding="utf-8")
    return read_connection("localhost:1", folder / "client.properties", {"PASSWORD": SECRET, "EMPTY": ""})


def test_properties_are_read_and_filled_from_the_environment(tmp_path: Path) -> None:
    text = f"""
        # who we are
        security.protocol = SASL_PLAINTEXT
        sasl.mechanism=PLAIN
        sasl.username=migration
        sasl.password=${{PASSWORD}}={SECRET}
    """
    connection = _read(tmp_path, text)
    assert connection.settings({})["sasl.password"] == f"{SECRET}={SECRET}"
    assert connection.settings({})["security.protocol"] == "SASL_PLAINTEXT"
    assert pickle.loads(pickle.dumps(connection)) == connection
    assert SECRET not in f"{connection}{connection!r}"
    assert connection.masked(f"no {SECRET}={SECRET} for migration") == "no *** for ***"


@pytest.mark.parametrize(
    "line, message",
    [
        ("linger.ms", "not a line of the form key=value"),
        ("=5", "not a line of the form key=value"),
        ("no.such.name=5", "librdkafka has no property no.such.name"),
        (f"sasl.jaas.config={SECRET}", "sasl.jaas.config cannot have this value"),
        (f"linger.ms={SECRET}", "linger.ms cannot have this value"),
        (f"sasl.password=${{NONE}}{SECRET}", "the environment has no variable NONE"),
        ("bootstrap.servers=localhost:9092", "bootstrap.servers has no place here"),
        ("isolation.level=read_uncommitted", "isolation.level cannot be chosen"),
        ("error_cb=x", "error_cb cannot be chosen"),
    ],
)
def test_a_mistake_is_named_by_its_line(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(SpecError, match=r"client\.properties, line 3: ") as raised:
        _read(tmp_path, f"socket.keepalive.enable=true\n# comment\n{line}\n")
    assert message in raised.value.message
    assert SECRET not in str(raised.value)


def test_properties_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"refuses the properties.*ssl.key.pem"):
        _read(tmp_path, "security.protocol=SSL\nssl.key.pem=${PASSWORD}\n")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"none.properties cannot be read: No such file"):
        read_connection("localhost:1", tmp_path / "none.properties")
    (tmp_path / "binary").write_bytes(b"\xff")
    with pytest.raises(SpecError, match="binary cannot be read: not UTF-8"):
        read_connection("localhost:1", tmp_path / "binary")


def test_the_client_is_imported_only_for_a_connection() -> None:
    code = """if True:
        import sys
        sys.modules["confluent_kafka"] = None
        import migrate.kafka.cluster, migrate.kafka.reader, migrate.kafka.writer
        from migrate.errors import MissingPackageError
        from migrate.kafka.connection import read_connection
        try:
            read_connection("localhost:1", None)
        except MissingPackageError as error:
            print(error.hint)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "pip install 'stateferry[kafka]'\n"


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    assert _read(tmp_path, "\ufefflinger.ms=7\n").settings({})["linger.ms"] == "7"
