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
    from migrate.spec.serde_section import NewSerdeSection, OldSerdeSection
    from migrate.spec.spec import ConversionSection, RunSection, SourceSection, TargetSection

    page = (ROOT / "docs/operations.md").read_text()
    sections = (SourceSection, TargetSection, ConversionSection, RunSection, OldSerdeSection, NewSerdeSection)
    keys = [field.alias or name for section in sections for name, field in section.model_fields.items()]
    assert [key for key in keys if not re.search(rf"[`.]{re.escape(key)}`|\[conversion\.{key}\]| {key}`", page)] == []


def test_every_allowance_is_documented() -> None:
    from typing import get_args

    from migrate.spec.allowed import MEANINGS, Allowance

    allowances = get_args(Allowance)
    page = (ROOT / "docs/operations.md").read_text()
    assert set(allowances) == MEANINGS.keys()
    assert [name for name in allowances if f"`{name}`" not in page] == []


def test_every_format_and_every_kind_that_is_refused_is_documented() -> None:
    from formats import FORMATS
    from formats.kafka_streams.unsupported import UNSUPPORTED

    page = (ROOT / "docs/formats.md").read_text()
    assert [known.id for known in FORMATS if f"| `{known.id}`" not in page] == []
    families = {family for known in FORMATS for family in (*(known.column_families or ()), *known.metadata_families)}
    assert [family for family in families if f"`{family}`" not in page] == []
    assert page.count("\n| ", page.index("### Stores that are refused"), page.index("What only keys tell")) == (
        len(UNSUPPORTED) + 1
    )
