"""The documents name things that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_that_a_page_cites_exists(page: Path) -> None:
    cited = re.findall(r"`(tests/[\w/.-]+)`", page.read_text())
    assert [path for path in cited if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_key_of_the_spec_is_documented() -> None:
    from migrate.spec import ConversionSection, RunSection

    page = (ROOT / "docs/operations.md").read_text()
    keys = [*ConversionSection.model_fields, *RunSection.model_fields]
    assert [key for key in keys if key not in page] == []
