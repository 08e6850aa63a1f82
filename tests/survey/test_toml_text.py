"""Text that is written as TOML is read as the same text."""

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrate.spec.spec import parse_spec
from migrate.survey.spec_template import SpecComments, spec_text, toml_string, toml_strings
from tests.support import KEY_VALUE, TIMESTAMPED

SURROGATES: tuple[Literal["Cs"], ...] = ("Cs",)
TEXTS = st.text(st.characters(exclude_categories=SURROGATES))
NAMES = st.text(st.characters(exclude_categories=SURROGATES, exclude_characters="/\0"), min_size=1)
FOUND = SpecComments(
    store_partitions=("0_0/orders",),
    records=12,
    column_families=("default",),
    other_stores=(),
    target_path="new",
    warnings=(),
)


@given(TEXTS, st.lists(TEXTS))
def test_any_text_survives(text: str, more: list[str]) -> None:
    written = f"text = {toml_string(text)} # {toml_string(text)}\nmore = {toml_strings(more)}\nlast = 1\n"
    assert tomllib.loads(written) == {"text": text, "more": more, "last": 1}


def test_what_no_toml_file_can_hold_is_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        toml_string("\udcff")


@given(NAMES, NAMES, NAMES, st.lists(TEXTS))
def test_a_spec_survives_any_names_of_directories_and_stores(
    path: str, store: str, family: str, warnings: list[str]
) -> None:
    """The names survive in comments too: none of them ends early."""
    content = {
        "name": "test",
        "work_dir": f"work/{path}",
        "source": {"format": KEY_VALUE, "path": f"state/{path}", "store": store},
        "target": {"format": TIMESTAMPED, "path": f"new/{path}"},
    }
    spec = parse_spec(content, base_dir=Path("/base"))
    found = replace(
        FOUND,
        store_partitions=(f"0_0/{store}",),
        column_families=(family,),
        other_stores=(store, family),
        target_path=path,
        warnings=tuple(warnings),
    )
    for wanted in (spec, parse_spec(content | {"target": {"format": TIMESTAMPED}}, base_dir=Path("/base"))):
        text = spec_text(wanted, found)
        assert parse_spec(tomllib.loads(text), base_dir=Path("/base")) == wanted
