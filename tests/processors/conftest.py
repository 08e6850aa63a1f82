"""For all tests of adapters inside processors."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def _little_garbage() -> Iterator[None]:
    """Faust collects garbage at each assignment: with all that other tests have left, that takes most of the time."""
    gc.freeze()
    yield
    gc.unfreeze()
