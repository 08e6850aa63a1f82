"""`stateferry serve`: the options, their mistakes, and its end."""

import base64
import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from migrate.cli import main
from tests.serve.services import make_orders
from tests.support import KEY_VALUE

_AVRO = '{serde = "avro", frame = "confluent", schemas = {1 = "v1.avsc"}}'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current directory, with an application and an empty spec."""
    make_orders(tmp_path / "app", 1)
    (tmp_path / "spec.toml").write_text("")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "words, code, sentence",
    [
        (["app"], 2, "is a directory: which store of it?"),
        (["spec.toml", "--store", "orders"], 2, "--store goes with a directory"),
        (["spec.toml", "--format", KEY_VALUE], 2, "--format goes with a directory"),
        (["app", "--store", "orders", "--format", "kafka"], 2, "unknown format 'kafka'"),
        (["app", "--store", "other", "--format", KEY_VALUE], 6, "no key-value store 'other'"),
        (["app", "--store", "orders", "--format", KEY_VALUE, "--host", "0.0.0.0"], 6, "no token is set"),
        (["app", "--store", "orders", "--format", KEY_VALUE, "--key-serde", "strin"], 2, "did you mean 'string'?"),
        (["app", "--store", "orders", "--format", KEY_VALUE, "--key-serde", "{serde"], 2, "is not an inline table"),
        (
            ["app", "--store", "orders", "--format", KEY_VALUE, "--value-serde", _AVRO],
            2,
            "cannot read the schema v1.avsc",
        ),
        (["app", "--store", "orders", "--format", KEY_VALUE, "--hosts", "hosts.toml"], 2, "hosts.toml cannot be read"),
        (["nothing"], 2, "does not exist"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_cannot_be_served_is_refused(
    capsys: pytest.CaptureFixture[str], words: list[str], code: int, sentence: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", *words])
    assert ended.value.code == code
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_the_regular_end(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "v1.avsc").write_text('{"type": "record", "name": "O", "fields": [{"name": "id", "type": "long"}]}')
    make_orders(tmp_path / "app", 1, {"a": "\0\0\0\0\x01\x0e"})
    program = "from migrate.cli import main; main()"
    serdes = ["--key-serde", "string", "--value-serde", _AVRO]
    words = ["serve", "app", "--store", "orders", "--format", KEY_VALUE, *serdes, "--port", "0"]
    command = [sys.executable, "-c", program, *words]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        url = process.stderr.readline().split()[2].rstrip(",")
        with urllib.request.urlopen(f"{url}/stores/orders/keys/a") as answer:
            assert json.load(answer) == {"key": "a", "value": {"id": 7}}
        process.send_signal(number)
        assert process.wait(60) == 0
        assert process.stderr.read() == ""


def test_the_example_of_the_help_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a migration whose spec names no serde, as `init` writes it: keys are bytes."""
    make_orders(tmp_path / "app", 1, {"order-001586": "a value"})
    spec = tmp_path / "migration.toml"
    spec.write_text(
        'name = "m"\nwork_dir = "work"\n[source]\npath = "app"\nstores = ["orders"]\n'
        f'format = "{KEY_VALUE}"\n[target]\nformat = "kafka-streams.timestamped-key-value"\n'
    )
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    found = re.search(r"curl '?http://127\.0\.0\.1:7654(/[^'\s]*)", capsys.readouterr().out)
    assert found is not None
    command = [sys.executable, "-c", "from migrate.cli import main; main()", "serve", str(spec), "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            url = line.split()[2].rstrip(",")
            assert f"old and new records at {url}/compare" in line
            with urllib.request.urlopen(url + found[1]) as answer:
                assert json.load(answer)["key"] == base64.b64encode(b"order-001586").decode()
            for other in (b"order-001586".hex() + "?encoding=hex", "b3JkZXItMDAxNTg2?encoding=base64url"):
                with urllib.request.urlopen(f"{url}/stores/orders/keys/{other}") as answer:
                    assert answer.status == 200
            for text, how in (("order-001586", "which was read as base64url"), ("order.001586", "not base64")):
                with pytest.raises(urllib.error.HTTPError) as refused:
                    urllib.request.urlopen(f"{url}/stores/orders/keys/{text}")
                said = json.load(refused.value)
                assert how in said["detail"]
                assert "?encoding=text" in said["next"]
        finally:
            process.terminate()
