"""A store of a real application gets a new schema, together with its changelog."""

from dataclasses import replace

from tests.live.changelog.app import Program
from tests.live.changelog.migrating import there_and_back


def test_a_new_schema_in_a_new_topic_and_back(old: Program) -> None:
    there_and_back(replace(old, exactly_once=True), 2000)
