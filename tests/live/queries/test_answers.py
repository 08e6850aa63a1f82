"""Ours answers what Kafka Streams answers about the same store, field by field and in its order."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from tests.live.kafka_streams.kinds import HEADERS_VERSIONS, KINDS, VERSIONS, versions_of
from tests.live.kafka_streams.program import require_live
from tests.live.queries.asking import Asked, ask_kafka_streams
from tests.live.queries.ours import TYPES, ask_view, open_ours

SOME, MANY = 300, 3000
_ASKED = [(HEADERS_VERSIONS[-1], SOME), *((version, MANY) for version in VERSIONS)]
READ = [kind for kind, held in KINDS.items() if not held.segmented]
CASES = [(version, count, kind) for version, count in _ASKED for kind in READ if version in versions_of(kind)]

AskedOf = Callable[[str, int], Asked]


@pytest.fixture(scope="module")
def asked_of(tmp_path_factory: pytest.TempPathFactory) -> AskedOf:
    require_live()
    return cache(lambda version, count: ask_kafka_streams(version, tmp_path_factory.mktemp("asked"), count))


@pytest.mark.parametrize(("version", "count", "kind"), CASES)
def test_every_answer_is_kafka_streams_own(asked_of: AskedOf, version: str, count: int, kind: str) -> None:
    asked = asked_of(version, count)
    ours = open_ours(asked.path, [kind])
    differing = [
        (question, expected, found)
        for question, expected in asked.answers[kind]
        if not question.is_query and (found := ask_view(ours, kind, TYPES[kind], question)) != expected
    ]
    assert not differing, (len(differing), differing[0])
