"""Ours answers what Kafka Streams answers about the same store, field by field and in its order."""

from collections.abc import Callable
from functools import cache

import pytest

from tests.live.kafka_streams.kinds import HEADERS_VERSIONS, KINDS, RETENTION_MS, VERSIONS, versions_of
from tests.live.kafka_streams.program import require_live
from tests.live.queries.asking import Asked, ask_kafka_streams
from tests.live.queries.ours import TYPES, as_kafka_streams_has_it, ask_query, ask_view, is_as, open_ours

SOME, MANY = 200, 3000
VERSION = HEADERS_VERSIONS[-1]
EVERY = [(version, kind) for version in VERSIONS for kind in KINDS if version in versions_of(kind)]

AskedOf = Callable[[str, int], Asked]


@pytest.fixture(scope="module")
def asked_of(tmp_path_factory: pytest.TempPathFactory) -> AskedOf:
    require_live()
    return cache(lambda version, count: ask_kafka_streams(version, tmp_path_factory.mktemp("asked"), count))


@pytest.mark.parametrize("kind", KINDS)
def test_every_answer_is_kafka_streams_own(asked_of: AskedOf, kind: str) -> None:
    assert not _first_difference(asked_of(VERSION, SOME), kind)


@pytest.mark.parametrize(("version", "kind"), EVERY)
def test_thousands_of_answers_are_kafka_streams_own(asked_of: AskedOf, version: str, kind: str) -> None:
    assert not _first_difference(asked_of(version, MANY), kind)


@pytest.mark.parametrize("kind", [kind for kind, held in KINDS.items() if held.segmented])
def test_questions_meet_the_edge_of_the_retention(asked_of: AskedOf, kind: str) -> None:
    asked = asked_of(VERSION, MANY)
    assert _first_difference(asked, kind, RETENTION_MS - 1)
    assert _first_difference(asked, kind, RETENTION_MS + 1)


def _first_difference(asked: Asked, kind: str, retention_ms: int = RETENTION_MS) -> str | None:
    ours = open_ours(asked.path, [kind], retention_ms=retention_ms)
    for question, expected in asked.answers[kind]:
        found = ask_query(ours, kind, question) if question.is_query else ask_view(ours, kind, TYPES[kind], question)
        if not is_as(as_kafka_streams_has_it(found, question), expected, question, kind):
            return f"{question}: expected {expected}, found {found}"
    return None
