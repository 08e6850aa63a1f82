"""A newcomer's walk: a fresh clone and a fresh virtual environment, and nothing that the pages do not say."""

from pathlib import Path

import pytest

from tests.tutorials.pages import PAGES
from tests.tutorials.surroundings import fresh
from tests.tutorials.walk import complaint, follow


@pytest.mark.timeout(3600)
def test_the_pages_are_all_that_a_newcomer_needs(tmp_path: Path) -> None:
    reader = fresh(tmp_path)
    for page in PAGES:
        reader.start_page()
        for outcome in follow(page, reader, installs=True):
            assert outcome.problem is None, complaint(page, outcome)
