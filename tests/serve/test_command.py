"""`stateferry serve`: the options, their mistakes, and its end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
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
        assert process.wait(20) == 0
        assert process.stderr.read() == ""
