"""The README and the tutorials do what they show, with what is installed here."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shared.commands import CommandServer
from tests.tutorials.pages import PAGES
from tests.tutorials.surroundings import installed
from tests.tutorials.walk import complaint, follow


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: what is printed has long ones in it, which would be broken."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_does_what_it_shows(page: Path, folder: Path, commands: CommandServer) -> None:
    outcomes = 0
    for outcome in follow(page, installed(folder, commands)):
        assert outcome.problem is None, complaint(page, outcome)
        outcomes += 1
    assert outcomes >= 5
