"""Results as JSON and as a Markdown page."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks.results import Bar, Result

_PACKAGES = ("rocksdict", "numpy", "xxhash", "pyspark", "deltalake")


def machine() -> dict[str, str]:
    """Where and with what this was measured."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "load before and after": f"{os.getloadavg()[0]:.1f}",
        "Python": platform.python_version(),
        **{name: version(name) for name in _PACKAGES},
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def write(folder: Path, name: str, results: list[Result], about: dict[str, str]) -> Path:
    """Write NAME.json and NAME.md; returns the latter."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {"machine": about, "results": [asdict(result) for result in results]}
    (folder / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    page = folder / f"{name}.md"
    page.write_text("\n".join(_page(results, about)) + "\n", encoding="utf-8")
    return page


def missed(results: Iterable[Result]) -> list[Bar]:
    """The bars that were not reached."""
    return [bar for result in results for bar in result.bars if not bar.is_met]


def _page(results: list[Result], about: dict[str, str]) -> Iterable[str]:
    yield "# Benchmarks"
    yield ""
    yield "Written by `python -m benchmarks`. Every measurement is a process of its own; the routes of a table take"
    yield "turns, and a ratio is the median of the ratios within each round."
    yield ""
    yield from _table(["", ""], [[name, value] for name, value in about.items()])
    yield ""
    yield "## Bars"
    yield ""
    bars = [bar for result in results for bar in result.bars]
    rows = [
        [bar.name, bar.what, f"{bar.kind} {bar.wanted}", f"{bar.reached:.2f}", "met" if bar.is_met else "**missed**"]
        for bar in bars
    ]
    yield from _table(["benchmark", "what", "bar", "reached", ""], rows)
    for result in results:
        yield ""
        yield f"## {result.name}"
        yield ""
        yield f"{result.title}."
        yield ""
        yield from _table(result.columns, result.rows)
        for note in result.notes:
            yield ""
            yield note


def _table(columns: list[str], rows: list[list[str]]) -> Iterable[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
