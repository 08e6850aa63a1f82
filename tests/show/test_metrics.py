"""Metrics of a run as Prometheus reads them, after success and after failure."""

import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from migrate import load_spec, run
from migrate.errors import InterruptedMigrationError, SpecError
from migrate.model.events import Event
from migrate.show import prometheus
from migrate.show.prometheus import metrics_file
from tests.shared.commands import stateferry
from tests.shared.following import make_migration
from tests.support import tree_state

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def _samples(file: Path) -> Samples:
    """By name and the labels that are not the migration's own."""
    found: Samples = {}
    for family in text_string_to_metric_families(file.read_text(encoding="utf-8")):
        for sample in family.samples:
            labels = [(key, value) for key, value in sample.labels.items() if key not in _OWN]
            found[sample.name, tuple(sorted(labels))] = sample.value
    return found


_OWN = ("name", "migration")
_PHASE = "stateferry_run_phase"


def _value(samples: Samples, name: str, **labels: str) -> float:
    return samples[f"stateferry_{name}", tuple(sorted(labels.items()))]


def test_a_run_leaves_its_figures(tmp_path: Path) -> None:
    spec = make_migration(tmp_path)
    (tmp_path / "metrics").mkdir()
    file = tmp_path / "metrics/stateferry.prom"
    started = time.time()
    done = stateferry("run", spec, "--no-spark", "--quiet", "--metrics-file", file)
    assert (done.returncode, done.stderr) == (0, "")
    assert [each.name for each in file.parent.iterdir()] == [file.name], "nothing half-written beside it"
    found = _samples(file)
    chunks = _value(found, "run_chunks_planned")
    assert chunks == _value(found, "run_chunks_done") == _value(found, "run_chunk_seconds_count") > 3
    assert _value(found, "run_chunk_seconds_bucket", le="+Inf") == chunks
    assert _value(found, "run_chunk_seconds_bucket", le="60.0") == chunks
    assert _value(found, "run_records_read_total") == _value(found, "run_records_written_total") == 1500
    assert _value(found, "run_bytes_read_total") == 1500 * 32
    assert _value(found, "run_records_rejected_total") == _value(found, "run_records_dropped_total") == 0
    assert _value(found, "run_chunks_failed_total") == 0
    assert _value(found, "run_records_per_second") > 0
    assert _value(found, "run_verified_records") == 1500
    assert [_value(found, "run_mismatches", kind=kind) for kind in ("missing", "differing", "extra")] == [0, 0, 0]
    assert _value(found, "run_phase", stateferry_run_phase="ended") == 1
    assert _value(found, "run_phase", stateferry_run_phase="rewrite") == 0
    assert _value(found, "run_exit_code") == 0
    assert started <= _value(found, "last_success_timestamp_seconds") <= time.time()
    assert ("stateferry_last_failure_timestamp_seconds", ()) not in found
    assert not [name for name, _ in found if name.endswith("_created")]
    assert f'name="{load_spec(spec).name}"' in file.read_text()
    assert 'migration="' in file.read_text()


_ODD = """
def _odd(record):
    if record.key == b"key-00001499" and not (HERE / "fixed").exists():
        raise ValueError("odd")
    return record
"""


def test_a_failure_and_a_later_success_are_both_recorded(tmp_path: Path) -> None:
    spec, file = make_migration(tmp_path), tmp_path / "run.prom"
    module = tmp_path / "held.py"
    module.write_text(f"{module.read_text().replace('return record', 'return _odd(record)')}\n\n{_ODD}")
    assert stateferry("run", spec, "--no-spark", "--metrics-file", file).returncode == 3
    found = _samples(file)
    assert _value(found, "run_exit_code") == 3
    assert _value(found, "run_chunks_failed_total") == 1
    assert 0 < _value(found, "run_chunks_done") < _value(found, "run_chunks_planned")
    failed_at = _value(found, "last_failure_timestamp_seconds")
    assert ("stateferry_last_success_timestamp_seconds", ()) not in found
    (tmp_path / "fixed").touch()
    assert stateferry("run", spec, "--no-spark", "--metrics-file", file).returncode == 0
    found = _samples(file)
    assert _value(found, "last_failure_timestamp_seconds") == failed_at
    assert _value(found, "last_success_timestamp_seconds") > failed_at
    assert _value(found, "run_chunks_done") == _value(found, "run_chunks_planned")
    assert _value(found, "run_records_read_total") < 1500, "what the first one read is the first one's"


@pytest.mark.parametrize("place", ["none/run.prom", "."])
def test_a_file_that_can_be_nowhere_is_a_mistake_before_anything_begins(place: str, tmp_path: Path) -> None:
    spec = make_migration(tmp_path)
    before = tree_state(tmp_path)
    refused = stateferry("run", spec, "--no-spark", "--metrics-file", tmp_path / place)
    assert refused.returncode == 2
    assert "--metrics-file" in refused.stderr
    assert tree_state(tmp_path) == before


def test_trouble_with_the_file_ends_no_run(tmp_path: Path) -> None:
    spec = load_spec(make_migration(tmp_path))
    folder = tmp_path / "metrics"
    folder.mkdir()
    with metrics_file(folder / "run.prom", spec.name) as listener:
        (folder / "run.prom").unlink()
        folder.rmdir()
        assert run(spec, on_event=listener).state == "published"
    assert not folder.exists()


def test_the_phase_is_that_of_the_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "_SECONDS_BETWEEN_WRITES", 0.0)
    spec, file = load_spec(make_migration(tmp_path)), tmp_path / "run.prom"
    phases: list[str] = []

    def listener(event: Event) -> None:
        inner(event)
        found = {dict(labels).get(_PHASE): on for (_, labels), on in _samples(file).items()}
        (phase,) = (name for name, is_on in found.items() if name and is_on)
        phases.append(phase)

    with metrics_file(file, spec.name) as inner:
        run(spec, on_event=listener)
    assert list(dict.fromkeys(phases)) == ["plan", "start", "rewrite", "assemble", "verify", "publish"]


def test_an_interruption_is_a_failure_with_its_own_code(tmp_path: Path) -> None:
    file = tmp_path / "run.prom"
    with pytest.raises(InterruptedMigrationError), metrics_file(file, "held"):
        raise InterruptedMigrationError("interrupted")
    assert _value(_samples(file), "run_exit_code") == 5
    with pytest.raises(KeyboardInterrupt), metrics_file(file, "held"):
        raise KeyboardInterrupt
    assert _value(_samples(file), "run_exit_code") == 5
    with pytest.raises(SpecError), metrics_file(file, "another"):
        raise SpecError("odd")
    assert _value(_samples(file), "run_exit_code") == 2


def test_a_file_of_something_else_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "run.prom"
    file.write_bytes(b"\xff{ this is no metric")
    with metrics_file(file, "held"):
        pass
    assert _value(_samples(file), "run_exit_code") == 0
