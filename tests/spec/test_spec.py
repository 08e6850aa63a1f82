"""The spec: what is understood. `tests/situations/specs.py` has the mistakes."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from migrate.errors import SpecError
from migrate.spec.spec import load_spec, parse_spec
from tests.support import KEY_VALUE, TIMESTAMPED

GOOD = """
name = "orders-timestamped"
work_dir = "work"

[source]
format = "kafka-streams.key-value"
path = "state/orders-app"
store = "orders"

[target]
format = "kafka-streams.timestamped-key-value"
path = "state-v2/orders-app"

[conversion]
default_timestamp_ms = 5
function = "orders.conversion:convert"
py_files = ["lib.zip"]
allow = ["changelog"]

[run]
chunk_size = "256 MiB"
time_budget = "90m"
on_reject = "dead-letter"
max_rejects = 10
max_reject_share = 0.01
verify = "digest"
snapshot = "copy"
"""


def _content(**sections: Any) -> dict[str, Any]:  # noqa: ANN401
    content: dict[str, Any] = {
        "name": "orders",
        "work_dir": "work",
        "source": {"format": KEY_VALUE, "path": "state", "store": "orders"},
        "target": {"format": TIMESTAMPED},
    }
    for name, section in sections.items():
        content[name] = {**content.get(name, {}), **section} if isinstance(section, dict) else section
    return content


def test_every_key_is_understood(tmp_path: Path) -> None:
    file = tmp_path / "spec.toml"
    file.write_text(GOOD, encoding="utf-8")
    spec = load_spec(file)
    assert spec.source_format.id == KEY_VALUE
    assert spec.target_format.id == TIMESTAMPED
    assert spec.source.store_names == ("orders",)
    assert spec.conversion.default_timestamp_ms == 5
    assert spec.conversion.function == "orders.conversion:convert"
    assert spec.run.chunk_size == 256 << 20
    assert spec.run.time_budget == timedelta(minutes=90)
    assert (spec.run.on_reject, spec.run.max_rejects, spec.run.max_reject_share) == ("dead-letter", 10, 0.01)
    assert (spec.run.verify, spec.run.snapshot) == ("digest", "copy")


def test_paths_are_relative_to_the_spec_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "ops"
    folder.mkdir()
    (folder / "spec.toml").write_text(GOOD, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    spec = load_spec("ops/spec.toml")
    assert spec.source_path == folder / "state" / "orders-app"
    assert spec.target_path == folder / "state-v2" / "orders-app"
    assert spec.home == folder / "work" / "orders-timestamped"


def test_absolute_paths_and_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    spec = parse_spec(_content(work_dir="~/work", source={"path": "/srv/state"}), base_dir=tmp_path)
    assert spec.source_path == Path("/srv/state")
    assert spec.home == tmp_path / "me" / "work" / "orders"


def test_defaults_are_the_careful_ones(tmp_path: Path) -> None:
    spec = parse_spec(_content(), base_dir=tmp_path)
    assert (spec.run.on_reject, spec.run.verify, spec.run.snapshot) == ("fail", "full", "link")
    assert (spec.run.chunk_size, spec.run.time_budget, spec.run.max_rejects) == (1 << 30, None, None)
    assert (spec.conversion.default_timestamp_ms, spec.conversion.allow, spec.target_path) == (-1, (), None)


@pytest.mark.parametrize(
    ("text", "size"),
    [("1 GiB", 1 << 30), ("1GiB", 1 << 30), ("500 MB", 500_000_000), ("1.5 KiB", 1536), (4096, 4096), ("77", 77)],
)
def test_sizes(text: object, size: int, tmp_path: Path) -> None:
    assert parse_spec(_content(run={"chunk_size": text}), base_dir=tmp_path).run.chunk_size == size


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("45m", 2700), ("2h", 7200), ("1d", 86400), ("1.5 h", 5400), (" 2 h ", 7200)]
)
def test_durations(text: str, seconds: float, tmp_path: Path) -> None:
    budget = parse_spec(_content(run={"time_budget": text}), base_dir=tmp_path).run.time_budget
    assert budget == timedelta(seconds=seconds)


def test_a_folder_is_not_a_spec(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=f"cannot read the spec {tmp_path}: Is a directory") as error:
        load_spec(tmp_path)
    assert "name its TOML file" in error.value.hint


@pytest.mark.parametrize(
    "content", [b"name = ", b"name = 'a'\nname = 'b'", b'name = "a', b"\xff\xfe\x00", b"[source\n"]
)
def test_bad_toml_names_the_file_and_the_line(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "spec.toml"
    file.write_bytes(content)
    where = "" if content.startswith(b"\xff") else r".*\(at "
    with pytest.raises(SpecError, match=rf"spec\.toml is not valid TOML{where}"):
        load_spec(file)


def test_a_byte_order_mark_is_read_over(tmp_path: Path) -> None:
    file = tmp_path / "migration.toml"
    file.write_text(GOOD)
    before = load_spec(file)
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert load_spec(file) == before
