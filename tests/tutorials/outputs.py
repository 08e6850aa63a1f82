"""Compares what a command printed with what the page shows of it.

A shown line `...` stands for any lines. What differs from run to run, such as times, is not compared, nor is where
lines are broken.
"""

import difflib
import platform
import re
from collections.abc import Sequence
from pathlib import Path

SHOWN_ROOT = "/home/you/stateferry"
"""Where the reader's clone is, on every page."""
GAP = "..."

_VARIES = [
    (re.compile(pattern, re.MULTILINE), replacement)
    for pattern, replacement in (
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME"),
        (r"^\d\d:\d\d:\d\d .*\d%.*$", ""),  # progress: which of these lines come depends on the time
        (r"^\d\d:\d\d:\d\d ", "TIME "),
        (r"\d+ chunks to rewrite, .*; \d+ done before", "N chunks to rewrite"),
        (r"\b[0-9a-f]{12}\b", "ID"),
        (r"\bpid \d+", "pid N"),
        (r"[\d.,]+ (ms|s|min)\b", "N s"),
        (r"[\d.,]+(?=(/s| records/s))", "N"),
        (r"\b\d+(?: of |/)(\d+ chunks)", r"N of \1"),
        (r"chunks +\d+ of (\d+) \([\d.]+ %\)", r"chunks N of \1"),
        (r"\d+ of them by earlier runs", "N of them by earlier runs"),
        (r"[\d.,]+ [KMG]iB( are\b| free\b)", r"N\1"),
        (r"\b\d+ (slots?|cores?)\b", "N slots"),
    )
]


def presented(output: str, root: Path) -> list[str]:
    """An output as a page shows it: in the reader's directory and shell, on a machine without a name."""
    text = output.replace(str(root), SHOWN_ROOT)
    text = re.sub(r"^bash: line \d+: +\d+ Killed .*", "Killed", text, flags=re.MULTILINE)
    text = re.sub(rf"\bon {re.escape(platform.node())}\b", "on host", text)
    return [line.rstrip() for line in text.strip("\n").splitlines()]


def agrees(shown: Sequence[str], actual: Sequence[str]) -> bool:
    """Whether the output is what is shown."""
    rest = _compared(actual)
    segments = [_compared(each) for each in _segments(shown)]
    if len(segments) == 1:
        return rest == segments[0]
    if not rest.startswith(segments[0]) or not rest.endswith(segments[-1]):
        return False
    at = 0
    for segment in segments:
        if (found := rest.find(segment, at)) < 0:
            return False
        at = found + len(segment)
    return True


def difference(shown: Sequence[str], actual: Sequence[str]) -> str:
    """Both, line by line."""
    return "\n".join(difflib.unified_diff(shown, actual, "shown", "printed", lineterm="", n=1))


def shortened(shown: Sequence[str], actual: Sequence[str]) -> list[str]:
    """The new output, with gaps where the page has them."""
    if GAP not in shown:
        return list(actual)
    lines: list[str] = []
    at = 0
    for number, segment in enumerate(_segments(shown)):
        if number:
            lines.append(GAP)
        if not segment:
            continue
        start = at if number == 0 else _most_alike(segment, actual, at)
        lines += actual[start : start + len(segment)]
        at = start + len(segment)
    return lines


def _most_alike(segment: Sequence[str], actual: Sequence[str], at: int) -> int:
    wanted = _compared(segment)
    starts = range(at, max(at, len(actual) - len(segment)) + 1)
    return max(starts, key=lambda start: _likeness(wanted, _compared(actual[start : start + len(segment)])))


def _likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()


def _segments(shown: Sequence[str]) -> list[list[str]]:
    segments: list[list[str]] = [[]]
    for line in shown:
        if line.strip() == GAP:
            segments.append([])
        else:
            segments[-1].append(line)
    return segments


def _compared(lines: Sequence[str]) -> str:
    text = "\n".join(lines)
    for pattern, replacement in _VARIES:
        text = pattern.sub(replacement, text)
    return " ".join(text.split())
