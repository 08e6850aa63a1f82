"""Asks Kafka Streams, then us, the same of the same stores."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tests.live.kafka_streams.kinds import KINDS, versions_of
from tests.live.kafka_streams.program import write_more
from tests.live.queries.questions import Question, newest_events, random_questions, skewed_events, write_questions

TASK = "0_1"

Answer: TypeAlias = Mapping[str, Any]
"""{"found", and a query's "position"}, {"failure"} or {"error"}, as Answers.java writes them."""


@dataclass(frozen=True, slots=True)
class Asked:
    """An application with a store of each kind, named after it, and what its owner answered."""

    path: Path
    answers: Mapping[str, Sequence[tuple[Question, Answer]]]


def ask_kafka_streams(version: str, folder: Path, count: int, *, seed: str = "") -> Asked:
    """Write to a store of each kind, close it, open it again, write one record of the newest time, and ask."""
    path = folder / "app"
    kinds = {kind: kind for kind in KINDS if version in versions_of(kind)}
    events = {kind: skewed_events(kind, seed=f"{seed}{kind}") for kind in kinds}
    questions = {kind: random_questions(kind, events[kind], count, seed=f"{seed}{kind}") for kind in kinds}
    for kind, asked in questions.items():
        write_questions(folder / "questions" / TASK / f"{kind}.jsonl", asked)
    write_more(version, path, kinds=kinds, events={TASK: events})
    newest = {kind: newest_events(kind, written) for kind, written in events.items()}
    write_more(version, path, kinds=kinds, events={TASK: newest}, asked=folder)
    answers = {kind: _lines(folder / "answers" / TASK / f"{kind}.jsonl") for kind in kinds}
    return Asked(path, {kind: list(zip(questions[kind], answers[kind], strict=True)) for kind in kinds})


def _lines(path: Path) -> list[Answer]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
