"""The language of code, messages and docs: words that another project would use."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HOME_MADE = re.compile(
    r"\b(anew|laid over|lay over|the client gets on|heed|shelve[ds]?|made anew|however spelled)\b", re.IGNORECASE
)
PAGES = [
    page for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")) if page.name != "CHANGELOG.md"
]  # it has old names


@pytest.mark.parametrize("package", ["formats", "migrate", "jobs"])
def test_the_code_speaks_plainly(package: str) -> None:
    modules = [*(ROOT / package).rglob("*.py")]
    assert modules
    assert [f"{path}: {found}" for path in modules for found in HOME_MADE.findall(path.read_text("utf-8"))] == []


def test_the_docs_speak_plainly() -> None:
    assert len(PAGES) > 10
    assert [f"{page.name}: {found}" for page in PAGES for found in HOME_MADE.findall(page.read_text("utf-8"))] == []
