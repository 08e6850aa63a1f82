"""A missing file or topic has more than one cause: each is named, with what can be done."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from migrate import RefusedError, Spec, SpecError, plan
from migrate.batch.changelog.topics import existing
from migrate.kafka.cluster import Cluster
from migrate.systems import System
from migrate.systems.faust import FAUST
from migrate.systems.kafka_streams import KAFKA_STREAMS
from migrate.systems.quix_streams import QUIX
from tests.shared.windowed import checkpoint
from tests.support import KEY_VALUE, TIMESTAMPED, make_store, numbered, raises


def _spec(
    tmp_path: Path,
    lines: str = "",
    *,
    changes: bool = False,
    allow: Sequence[str] = (),
    **target: Any,  # noqa: ANN401
) -> Spec:
    task = tmp_path / "state" / "shop" / "0_0"
    make_store(task / "rocksdb" / "table", numbered(20))
    if lines:
        (task / ".checkpoint").write_text(checkpoint(lines), encoding="ascii")
    return Spec(
        name="shop",
        work_dir=tmp_path / "work",
        source={"format": KEY_VALUE, "path": task.parent, "store": "table"},
        target={"format": TIMESTAMPED, **target},
        conversion={"function": lambda record: record, "allow": allow} if changes else {},
    )


def test_a_store_without_a_checkpoint_may_have_no_changelog(tmp_path: Path) -> None:
    report = plan(_spec(tmp_path))
    assert report.verdict.go
    assert any("or there is no changelog (logging disabled)" in warning for warning in report.warnings)
    assert report.changelog.startswith("the files name no changelog: is logging disabled? where there is one, ")


def test_a_changed_store_without_a_changelog_is_told_what_is_right_without_one(tmp_path: Path) -> None:
    report = plan(_spec(tmp_path, changes=True))
    assert report.verdict.exit_code == 6
    said = "where logging is disabled for the store there is nothing to rewrite, and nothing is replayed: "
    assert said + '[conversion] allow = ["changelog", "unclean-source"]' in report.verdict.next_step
    assert report.changelog.startswith("the files name no changelog: is logging disabled? where there is one, ")
    assert plan(_spec(tmp_path / "allowed", changes=True, allow=("changelog", "unclean-source"))).verdict.go


def test_a_changed_store_whose_files_name_its_changelog_is_not_told_so(tmp_path: Path) -> None:
    refused = plan(_spec(tmp_path, "shop-table-changelog 0 19", changes=True)).verdict
    assert refused.next_step.endswith('[conversion] allow = ["changelog"], if you rewrite that topic yourself')


def test_a_store_with_a_checkpoint_has_one(tmp_path: Path) -> None:
    assert plan(_spec(tmp_path, "shop-table-changelog 0 19")).changelog.startswith(
        "the changelog holds the bare values"
    )


@pytest.mark.parametrize("allow", [(), ("changelog",), ("unclean-source",)])
def test_an_input_topic_that_serves_as_the_changelog_is_named(tmp_path: Path, allow: Sequence[str]) -> None:
    verdict = plan(_spec(tmp_path, "users 0 19", changes=True, allow=allow)).verdict
    assert verdict.exit_code == 6
    assert "files name position 19 of the topic users, which is no changelog of the application" in verdict.sentence
    assert "topology.optimization = none" in verdict.next_step
    assert verdict.next_step.endswith('in a restore): [conversion] allow = ["changelog", "unclean-source"]')


def test_what_the_refusal_of_an_input_topic_names_makes_it_go_on(tmp_path: Path) -> None:
    report = plan(_spec(tmp_path, "users 0 19", changes=True, allow=("changelog", "unclean-source")))
    assert report.verdict.go
    assert report.changelog.startswith("its task's files name position 19 of the topic users, which is no changelog")


class _WithoutTopics(Cluster):
    def __init__(self) -> None:
        pass

    def topic(self, name: str) -> None:
        return None


def test_a_topic_that_is_not_there_may_never_have_been(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="the changelog shop-table-changelog does not exist: so") as caught:
        existing(_WithoutTopics(), "shop-table-changelog", KAFKA_STREAMS.changelog, "so")
    assert "is logging disabled for this store, so that it has no changelog? leave [changelog] out" in caught.value.hint


@pytest.mark.parametrize("system", [FAUST, QUIX])
def test_a_changelog_with_a_name_of_its_own_is_not_left_out(system: System) -> None:
    error = raises(
        RefusedError, "does not exist", existing, _WithoutTopics(), "shop-counts-changelog", system.changelog
    )
    assert "gives a name of its own" in error.hint
    assert error.hint.endswith("leave [changelog] out only where the store has no changelog")


def test_a_store_that_has_no_directory_may_be_in_memory(tmp_path: Path) -> None:
    spec = _spec(tmp_path)
    source = spec.source.model_copy(update={"store": "counts-by-user"})
    verdict = plan(spec.model_copy(update={"source": source})).verdict
    assert "A store in memory is in its changelog alone" in verdict.next_step


def test_what_is_not_possible_yet_is_said_with_the_nearest_thing(tmp_path: Path) -> None:
    spec = _spec(tmp_path).model_dump(exclude={"conversion"})
    change = {"from": {"serde": "protobuf"}, "to": {"serde": "text"}}
    with pytest.raises(SpecError, match=r"unknown serde 'protobuf': not possible yet; a .* function gets the bytes"):
        Spec(**spec, conversion={"value": change})
