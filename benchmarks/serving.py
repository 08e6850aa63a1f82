"""The service under load: point queries by wrk, alone and beside a streamed scan, whose rate and memory it tells."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.results import Bar, Result
from benchmarks.rounds import ROOT
from benchmarks.setting import SMALL, Setting
from benchmarks.stores import Store

_COMMAND = ["-c", "from migrate.cli import main; main()", "serve"]
_SETTLED_SECONDS = 2
_COLUMNS = ["what is asked", "point queries/s", "per CPU second", "median ms", "p99 ms", "errors"]
_CONNECTIONS = 16
_SLOW_CLIENTS = 100
_SLOW_BYTES, _SLOW_PAUSE = 4 << 10, 0.05
"""What a slow client receives at a time, and the seconds between."""
_SECONDS = 10
_SCRIPT = """math.randomseed({seed})
request = function()
  return wrk.format("GET", "/stores/plain/keys/k" .. string.format("%016d", math.random(0, {records} - 1)))
end
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("FOUND %d %d %d %d\\n", summary.requests, e.status + e.connect + e.read + e.write + e.timeout,
    latency:percentile(50), latency:percentile(99)))
end
"""
_MIB_OF_KIB = 1 / 1024


@dataclass(frozen=True, slots=True)
class _Service:
    """A process that serves."""

    pid: int
    url: str

    @property
    def cpu(self) -> float:
        """Seconds of CPU so far, of all its threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def mib(self, of: str) -> float:
        """Resident memory: `VmRSS` now, `VmHWM` at its highest."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        found = re.search(rf"{of}:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * _MIB_OF_KIB


@dataclass(frozen=True, slots=True)
class _Load:
    """What wrk found, and what it cost the service."""

    requests: int
    errors: int
    median_ms: float
    p99_ms: float
    wall: float
    cpu: float

    @property
    def row(self) -> list[str]:
        """For the table."""
        rates = f"{self.requests / self.wall:,.0f}", f"{self.requests / self.cpu:,.0f}"
        return [*rates, f"{self.median_ms:.1f}", f"{self.p99_ms:.1f}", str(self.errors)]


def serving(setting: Setting) -> list[Result]:
    """Of stores whose blocks the system has cached."""
    if shutil.which("wrk") is None:
        result = Result("serve", "The service", [])
        result.notes.append("Not measured: wrk is not installed, and a client in Python is slower than the service.")
        return [result]
    return [_rates(setting), _crowd(setting)]


def _rates(setting: Setting) -> Result:
    result = Result("serve", f"The service, {_CONNECTIONS} connections", _COLUMNS)
    store = setting.store(SMALL)
    with _running(store.path) as service:
        _wrk(service, store.records, seed=0)  # reads the blocks
        loads = [_wrk(service, store.records, seed=number) for number in range(1, setting.rounds + 1)]
        before = service.mib("VmRSS")
        (records, seconds), scanned = _beside(lambda: _scan(service), lambda: _wrk(service, store.records, seed=99))
        grown = service.mib("VmHWM") - before
    best = max(loads, key=lambda load: load.requests / load.cpu)
    result.rows = [["keys", *best.row], ["keys, beside a scan", *scanned.row]]
    scan = f"The scan beside them: {records / seconds:,.0f} records/s; it took {grown:.0f} MiB more than before."
    result.notes += [f"{store.words}, read from the page cache.", scan]
    result.bars = [
        Bar("serve", "point queries per CPU second", 3_000, best.requests / best.cpu),
        Bar("serve", "p99 of point queries, ms", 20, min(load.p99_ms for load in loads), "at most"),
        Bar("serve", "errors", 0, sum(load.errors for load in (*loads, scanned)), "at most"),
        Bar("serve", "MiB that a scan of the whole store takes", 64, grown, "at most"),
    ]
    result.raw = {
        "loads": [load.row for load in loads],
        "beside a scan": scanned.row,
        "scan": [records, seconds, grown],
    }
    return result


def _crowd(setting: Setting) -> Result:
    """Scans of stores of two sizes, and many scans by slow clients at one time."""
    title = f"The service and {_SLOW_CLIENTS} slow clients, each of which asks for a whole scan"
    result = Result("serve, scans", title, _COLUMNS)
    peaks = [_scan_peak(setting.store(records)) for records in (SMALL // 10, SMALL)]
    store = setting.store(SMALL)
    with _running(store.path) as service:
        _wrk(service, store.records, seed=0)
        before = service.mib("VmHWM")
        with _slow_clients(service) as statuses:
            time.sleep(_SETTLED_SECONDS)
            grown = service.mib("VmHWM") - before
            load = _wrk(service, store.records, seed=1)  # which fills the block cache
    begun, refused = statuses.count(200), statuses.count(503)
    result.rows = [["keys, beside slow scans", *load.row]]
    result.notes = [
        f"{begun} scans were begun, which is the limit, and {refused} refused with 503; they took {grown:.0f} MiB.",
        f"The service's peak after one scan: {peaks[0]:.0f} MiB of 200,000 records, {peaks[1]:.0f} MiB of 2,000,000.",
    ]
    result.bars = [
        Bar(result.name, "peak memory after a scan of 2 M records, against 200 k", 1.3, peaks[1] / peaks[0], "at most"),
        Bar(result.name, "p99 of point queries, ms", 20, load.p99_ms, "at most"),
        Bar(result.name, "errors of point queries", 0, load.errors, "at most"),
        Bar(result.name, "MiB that slow scans take", 64, grown, "at most"),
    ]
    result.raw = {"load": load.row, "begun": begun, "refused": refused, "grown MiB": grown, "peaks MiB": peaks}
    return result


@contextmanager
def _running(path: Path) -> Iterator[_Service]:
    words = [str(path), "--store", "plain", "--format", "kafka-streams.key-value", "--key-serde", "string"]
    command = [sys.executable, *_COMMAND, *words, "--port", "0"]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        said = process.stderr.readline()
        found = re.search(r"http://\S+:\d+", said)
        if found is None:
            raise RuntimeError(f"the service did not start: {said}{process.stderr.read()}")
        yield _Service(process.pid, found[0])
    finally:
        process.terminate()
        process.wait(30)


def _wrk(service: _Service, records: int, *, seed: int) -> _Load:
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(_SCRIPT.format(seed=seed, records=records))
        script.flush()
        words = ["-t", "1", "-c", str(_CONNECTIONS), "-d", f"{_SECONDS}s", "-s", script.name, service.url]
        cpu, begun = service.cpu, time.perf_counter()
        done = subprocess.run(["wrk", *words], capture_output=True, text=True, check=True)
        wall, cpu = time.perf_counter() - begun, service.cpu - cpu
    found = re.search(r"FOUND (\d+) (\d+) (\d+) (\d+)", done.stdout)
    if found is None:
        raise RuntimeError(f"wrk said nothing of what it found: {done.stdout}{done.stderr}")
    requests, errors, median, p99 = map(int, found.groups())
    return _Load(requests, errors, median / 1000, p99 / 1000, wall, cpu)


def _scan(service: _Service) -> tuple[int, float]:
    """(records, seconds) of a whole scan. Raises RuntimeError where it is not complete."""
    begun = time.perf_counter()
    last = b""
    with urllib.request.urlopen(f"{service.url}/stores/plain/all") as answer:
        for line in answer:
            last = line
    end = json.loads(last)
    if end.get("end") is not True:
        raise RuntimeError(f"the scan broke off: {end}")
    return end["records"], time.perf_counter() - begun


def _scan_peak(store: Store) -> float:
    """MiB of a service that has streamed the whole store once."""
    with _running(store.path) as service:
        _scan(service)
        return service.mib("VmHWM")


@contextmanager
def _slow_clients(service: _Service) -> Iterator[list[int]]:
    """Clients that ask for a whole scan and receive it slowly; yields their statuses, once all are told."""
    statuses: list[int] = []
    stop = threading.Event()

    def scan() -> None:
        with urllib.request.urlopen(f"{service.url}/stores/plain/all") as answer:
            statuses.append(answer.status)
            while not stop.wait(_SLOW_PAUSE) and answer.read(_SLOW_BYTES):
                pass

    def ask() -> None:
        try:
            scan()
        except urllib.error.HTTPError as error:
            statuses.append(error.code)

    threads = [threading.Thread(target=ask) for _ in range(_SLOW_CLIENTS)]
    for thread in threads:
        thread.start()
    while len(statuses) < _SLOW_CLIENTS:
        stop.wait(_SLOW_PAUSE)
    try:
        yield statuses
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _beside(scan: Callable[[], tuple[int, float]], load: Callable[[], _Load]) -> tuple[tuple[int, float], _Load]:
    """Both at the same time."""
    found: list[tuple[int, float]] = []
    thread = threading.Thread(target=lambda: found.append(scan()))
    thread.start()
    measured = load()
    thread.join()
    return found[0], measured
