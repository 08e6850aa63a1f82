"""State directories that several modules of live tests start from."""

from collections.abc import Callable
from functools import cache

import pytest

from tests.live.kafka_streams.program import Verdict, require_live
from tests.live.migrating import Application, make_every_kind


@pytest.fixture(scope="session")
def made_by(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Application]:
    """The application of every kind that a version of Kafka Streams made; not to be changed."""
    require_live()
    return cache(lambda version: make_every_kind(version, tmp_path_factory.mktemp("every-kind")))


@pytest.fixture(scope="session")
def opened_by(made_by: Callable[[str], Application]) -> Callable[[str], Verdict]:
    """What the version that made it finds in it."""

    def open_it(version: str) -> Verdict:
        verdict = made_by(version).open()
        assert verdict.ok, verdict.difference
        return verdict

    return cache(open_it)
