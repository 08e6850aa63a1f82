"""The name of a published state directory is an application's id, and that decides which topics are read."""

import re
from pathlib import Path
from typing import Any

import pytest

from migrate import DryRunReport, RefusedError, Spec, plan, run
from tests.batch.switch.support import StopAt, StoppedError
from tests.support import RAW, make_families, make_spec, make_store, numbered, raises, read_family

TASKS = {"kafka-streams": ("0_0", "0_1"), "streamiz": ("0-0", "0-1")}


def _application(path: Path, *tasks: str, application: str = "shop", topics: tuple[str, ...] = ()) -> Path:
    """Stores `kv` and `my-kv`, with changelogs of that application's, and a source topic that serves as one."""
    for number, task in enumerate(tasks):
        for store in ("kv", "my-kv"):
            make_store(path / task / "rocksdb" / store, numbered(20))
        lines = [*(f"{application}-{store}-changelog {number} 19" for store in ("kv", "my-kv")), *topics]
        (path / task / ".checkpoint").write_text("\n".join(["0", str(len(lines)), *lines, ""]))
    return path


def _spec(path: Path, published: str, system: str = "kafka-streams", **sections: Any) -> Spec:  # noqa: ANN401
    formats = {"source_format": f"{system}.key-value", "target_format": f"{system}.timestamped-key-value"}
    sections = {"source": {"store": "kv"}, "target": {"path": published}, **sections}
    return make_spec(path.parents[1], path, **formats, **sections)


def _name_check(report: DryRunReport) -> tuple[str, str]:
    return next((each.outcome, f"{each.detail} {each.fix}") for each in report.checks if each.name == "target.name")


@pytest.mark.parametrize("system", TASKS)
def test_a_directory_with_another_id_is_refused_with_the_topics_that_it_would_read(system: str, tmp_path: Path) -> None:
    path = _application(tmp_path / "state/shop", *TASKS[system], topics=("clicks 0 7",))
    wrong = _spec(path, "state/shop-v2", system)
    refused = raises(RefusedError, "would read shop-v2-kv-changelog, shop-v2-my-kv-changelog, and", run, wrong)
    assert f'"{tmp_path}/state/shop-v2/shop"' in refused.hint
    assert not wrong.home.exists()
    report = plan(wrong)
    assert report.verdict.exit_code == refused.exit_code == 6
    assert _name_check(report)[0] == "failed"
    right = _spec(path, "state/shop-v2/shop", system)
    assert _name_check(plan(right)) == ("ok", "its name is the application's id: shop ")
    run(right)
    assert len(read_family(tmp_path / f"state/shop-v2/shop/{TASKS[system][0]}/rocksdb/my-kv")) == 20


def test_topics_count_and_not_the_name_of_the_old_directory(tmp_path: Path) -> None:
    """It may be a copy under another name."""
    path = _application(tmp_path / "state/copy-of-shop", "0_0")
    with pytest.raises(RefusedError, match="ends in copy-of-shop, and the application's id is shop"):
        run(_spec(path, "new/copy-of-shop"))
    assert run(_spec(path, "new/shop")).published is not None


def test_the_id_of_the_spec_counts_before_all(tmp_path: Path) -> None:
    path = _application(tmp_path / "state/shop", "0_0")
    changelog = {"bootstrap": "localhost:1", "application_id": "orders"}
    found = {name: _name_check(plan(_spec(path, f"new/{name}", changelog=changelog))) for name in ("shop", "orders")}
    assert found["orders"] == ("ok", "its name is the application's id: orders ")
    assert found["shop"][0] == "failed"
    assert "would read shop-kv-changelog, and" in found["shop"][1]


def test_another_id_can_be_allowed_by_name(tmp_path: Path) -> None:
    path = _application(tmp_path / "state/shop", "0_0")
    spec = _spec(path, "new/shop-v2", conversion={"allow": ["application-id"]})
    assert _name_check(plan(spec)) == ("ok", "its name is shop-v2, and the application's id is shop (allowed by name) ")
    assert run(spec).published == tmp_path / "new/shop-v2"


def test_a_migration_that_began_without_this_check_is_refused_too(tmp_path: Path) -> None:
    path = _application(tmp_path / "state/shop", "0_0")
    allowed = _spec(path, "new/shop-v2", conversion={"allow": ["application-id", "unverified"]})
    with pytest.raises(StoppedError):
        run(allowed, on_event=StopAt("publish.started"))
    with pytest.raises(RefusedError, match="ends in shop-v2"):
        run(_spec(path, "new/shop-v2", conversion={"allow": ["unverified"]}))
    run(allowed)
    assert run(_spec(path, "new/shop-v2")).state == "published", "nothing is left to refuse"


@pytest.mark.parametrize(("name", "outcome"), [("shop", "ok"), ("shop-v2", "warning")])
def test_where_nothing_tells_the_id_that_is_said(name: str, outcome: str, tmp_path: Path) -> None:
    path = _application(tmp_path / "state/shop", "0_0")
    (path / "0_0/.checkpoint").unlink()
    spec = _spec(path, f"new/{name}", conversion={"allow": ["unclean-source"]})
    said = _name_check(plan(spec))
    assert said[0] == outcome
    assert "names a changelog, so that the application's id is not known" in said[1]
    assert any("id is not known" in each for each in run(spec).warnings) == (outcome == "warning")


def test_offsets_inside_the_stores_tell_it_too(tmp_path: Path) -> None:
    """Kafka Streams keeps them there since 4.3."""
    path = tmp_path / "state/shop"
    offsets = {b"shop-kv-changelog-0": (19).to_bytes(8, "big"), b"status": b"\x00" * 8}
    make_families(path / "0_0/rocksdb/kv", {"default": numbered(20), "offsets": offsets})
    assert _name_check(plan(_spec(path, "new/shop-v2")))[0] == "failed"
    assert _name_check(plan(_spec(path, "new/shop")))[0] == "ok"


@pytest.mark.parametrize(
    ("topics_of", "name", "outcome"),
    [("shop-clicks", "shop-v2", "failed"), ("shop-clicks", "shop", "ok"), ("configured", "shop-v2", "warning")],
)
def test_topics_of_a_named_topology_have_its_name_too(topics_of: str, name: str, outcome: str, tmp_path: Path) -> None:
    path = _application(tmp_path / "state/shop", "__clicks__/0_0", application=topics_of)
    assert _name_check(plan(_spec(path, f"new/{name}")))[0] == outcome


def test_the_directory_of_a_topology_has_no_id_as_its_name(tmp_path: Path) -> None:
    path = _application(tmp_path / "state/shop/__clicks__", "0_0", application="shop-clicks")
    assert _name_check(plan(_spec(path, "clicks-v2")))[0] == "ok"


def test_one_rocksdb_directory_may_have_any_name(tmp_path: Path) -> None:
    path = _application(tmp_path / "state/shop", "0_0") / "0_0/rocksdb/kv"
    run(make_spec(tmp_path, path, source_format=RAW, target_format=RAW, target={"path": "anything"}))
    assert re.fullmatch("anything", next(tmp_path.glob("any*")).name)
