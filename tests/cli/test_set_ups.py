"""Commands under supervisors and in bare containers: closed streams, other encodings, few open files."""

import json
import os
import resource
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from rocksdict import Options, Rdict

from migrate import inspect, run
from migrate.stores.rocksdb.live import open_live
from tests.support import make_store, raw_spec, spec_file

COMMAND = Path(sys.executable).with_name("stateferry")
RECORDS = {b"k%d" % number: b"v" for number in range(50)}


def _spec(folder: Path, source: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return spec_file(folder / "m.toml", name="m", source={"path": str(source)})


def _command(*arguments: object, before: str = "", **variables: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["bash", "-c", f'{before} exec "$@"', "_", COMMAND, *map(str, arguments)],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **variables},
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_closed_standard_streams_change_nothing_but_what_is_printed(closed: str, tmp_path: Path) -> None:
    spec = _spec(tmp_path, make_store(tmp_path / "old", RECORDS))
    before = f"exec {closed};"
    assert _command("plan", spec, before=before).returncode == 0
    done = _command("run", spec, "--no-spark", before=before)
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
    assert (tmp_path / "new/CURRENT").exists()
    assert _command("run", tmp_path / "none.toml", before=before).returncode == 2


def test_a_closed_stream_is_none_of_the_files_that_are_opened_later(tmp_path: Path) -> None:
    code = "import os, sys; from migrate.show.output import prepare_streams; prepare_streams(); "
    code += "print(os.path.samefile(os.devnull, '/dev/fd/1'), os.open('/', 0) > 2, file=open(sys.argv[1], 'w'))"
    command = ["bash", "-c", f'exec {sys.executable} -c "{code}" {tmp_path / "out"} <&- >&- 2>&-']
    subprocess.run(command, check=True, timeout=60)
    assert (tmp_path / "out").read_text() == "True True\n"


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1"])
@pytest.mark.parametrize("key", ["k\N{LATIN SMALL LETTER E WITH ACUTE}", "\N{GREEK SMALL LETTER ALPHA}", "\U0001f600"])
def test_letters_that_an_encoding_lacks_are_escaped(key: str, encoding: str, tmp_path: Path) -> None:
    records = {key.encode() + b"%d" % number: b"\xff\0" for number in range(3)}
    spec = _spec(tmp_path, make_store(tmp_path / "old", records))
    for verb in (("plan", spec), ("inspect", tmp_path / "old"), ("run", spec, "--no-spark")):
        done = _command(*verb, PYTHONIOENCODING=encoding)
        assert done.returncode == 0, done.stderr
    text = _command("inspect", tmp_path / "old", PYTHONIOENCODING=encoding).stdout.decode(encoding)
    expected = key.encode(encoding, "backslashreplace").decode(encoding)
    assert expected in text
    assert ".." in text if encoding == "ascii" else "\N{MIDDLE DOT}\N{MIDDLE DOT}" in text
    document = json.loads(_command("inspect", tmp_path / "old", "--json", PYTHONIOENCODING=encoding).stdout)
    assert document["databases"][0]["families"][0]["samples"][0]["key"]["text"].startswith(key)


@pytest.mark.parametrize(
    "letter", ["\N{LATIN SMALL LETTER E WITH ACUTE}", "\N{GREEK SMALL LETTER ALPHA}", "\U0001f600"]
)
def test_a_spec_on_standard_output_is_read_as_it_was_meant(letter: str, tmp_path: Path) -> None:
    source = make_store(tmp_path / f"stores{letter}", RECORDS)
    same = ("--from", "rocksdb.raw", "--to", "rocksdb.raw", "--output", "-")
    found = _command("init", source, *same, PYTHONIOENCODING="latin-1").stdout
    assert tomllib.loads(found.decode("utf-8"))["source"]["path"] == str(source)


def test_a_path_in_an_error_is_escaped_too(tmp_path: Path) -> None:
    path = tmp_path / "\N{GREEK SMALL LETTER ALPHA}"
    variables = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    for arguments in (("inspect", path), ("inspect", path, "--json")):
        done = _command(*arguments, **variables)
        assert done.returncode == 6, done.stderr
        assert b"this is a bug" not in done.stderr
    assert json.loads(done.stdout)["error"]["exit_code"] == 6


@pytest.fixture(scope="module")
def many_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = Options(raw_mode=True)
    options.set_disable_auto_compactions(True)
    options.set_level_zero_slowdown_writes_trigger(10**6)
    options.set_level_zero_stop_writes_trigger(10**6)
    path = tmp_path_factory.mktemp("many") / "old"
    database = Rdict(str(path), options=options)
    for number in range(400):
        database[b"%07d" % (number * 7919 % 1000003)] = b"v"
        database.flush()
    database.close()
    return path


def test_the_limit_of_open_files_is_raised_as_far_as_it_may_be(many_tables: Path, tmp_path: Path) -> None:
    spec = _spec(tmp_path, many_tables)
    for verb in (("inspect", many_tables), ("doctor", spec, "--no-spark"), ("plan", spec), ("run", spec, "--no-spark")):
        done = _command(*verb, before="ulimit -Sn 300;")
        assert (done.returncode, b"Traceback" in done.stderr) == (0, False), verb


def _run(path: Path, folder: Path) -> None:
    run(raw_spec(folder, path))


def _run_in_workers(path: Path, folder: Path) -> None:
    run(raw_spec(folder, path), jobs=2)


def _write(_: Path, folder: Path) -> None:
    with open_live(folder / "live"):
        pass


@pytest.mark.parametrize("use", [lambda path, _: inspect(path), _run, _run_in_workers, _write])
def test_a_caller_in_python_and_workers_get_a_higher_limit_too(
    use: Callable[[Path, Path], object], many_tables: Path, tmp_path: Path
) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard))
    use(many_tables, tmp_path)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)


def test_too_few_open_files_end_in_a_sentence_in_every_verb(many_tables: Path, tmp_path: Path) -> None:
    spec = _spec(tmp_path, many_tables)
    ends = {"inspect": 3, "doctor": 6, "plan": 6, "run": 3}
    for verb, code in ends.items():
        no_spark = ["--no-spark"] if verb in ("doctor", "run") else []
        done = _command(verb, many_tables if verb == "inspect" else spec, *no_spark, before="ulimit -n 300;")
        assert (done.returncode, b"Traceback" in done.stderr) == (code, False), verb
        assert b"raise the limit of open files (ulimit -n" in done.stdout + done.stderr
