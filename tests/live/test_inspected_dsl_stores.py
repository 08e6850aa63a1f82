"""What Kafka Streams' DSL keeps in kinds of store that no format describes is named, and not converted."""

from pathlib import Path

import pytest

from migrate import RefusedError, inspect, plan, run
from migrate.spec.spec import Spec
from tests.live.kafka_streams.dsl import (
    EMIT_FINAL_SESSION,
    EMIT_FINAL_SLIDING_WINDOW,
    EMIT_FINAL_WINDOW,
    FOREIGN_KEY,
    OUTER_JOIN,
    make_dsl_state,
)
from tests.live.kafka_streams.program import require_live
from tests.support import make_spec

ON_CLOSE = " that emits when a "
LIST, SUBSCRIPTIONS = "the list store of an outer or left join", "the subscription store of a foreign-key join"
# (topology, of stores with headers, store, part of what it is called, two formats that it could be taken for)
STORES = [
    (EMIT_FINAL_WINDOW, False, "agg", ON_CLOSE, ("window", "timestamped-window")),
    (EMIT_FINAL_SLIDING_WINDOW, False, "agg", ON_CLOSE, ("window", "timestamped-window")),
    (EMIT_FINAL_SESSION, False, "agg", ON_CLOSE, ("session", "headers-session")),
    (EMIT_FINAL_WINDOW, True, "agg", ON_CLOSE, ("window", "timestamped-window")),
    (EMIT_FINAL_SESSION, True, "agg", ON_CLOSE, ("headers-session", "session")),
    (OUTER_JOIN, False, "agg-outer-shared-join-store", LIST, ("key-value", "timestamped-key-value")),
]


@pytest.mark.parametrize(("topology", "headers", "store", "name", "formats"), STORES)
def test_a_store_of_the_dsl_is_named_and_refused(
    topology: str, headers: bool, store: str, name: str, formats: tuple[str, str], *, tmp_path: Path
) -> None:
    require_live()
    app = tmp_path / "state" / "app"
    make_dsl_state("4.3.1", app, topology=topology, store="agg", headers=headers)
    found = {each.name: each for each in inspect(app).stores}[store].unsupported
    assert found is not None
    assert name in found.name
    assert found.reason
    with pytest.raises(RefusedError):
        run(_spec(tmp_path, app, store, *formats))


def test_a_name_like_a_subscription_store_is_told_of(tmp_path: Path) -> None:
    """The application gave it this name itself, as it may give it to any store."""
    require_live()
    app = tmp_path / "state" / "app"
    make_dsl_state("4.3.1", app, topology=FOREIGN_KEY, store="agg", headers=False)
    store = "agg-subscription-store"
    found = {each.name: each for each in inspect(app).stores}[store].unsupported
    assert found is not None
    assert found.name == SUBSCRIPTIONS
    report = plan(_spec(tmp_path, app, store, "timestamped-key-value", "headers-key-value"))
    assert any(SUBSCRIPTIONS in warning for warning in report.warnings)


def _spec(folder: Path, app: Path, store: str, source: str, target: str) -> Spec:
    return make_spec(
        folder,
        app,
        source_format=f"kafka-streams.{source}",
        target_format=f"kafka-streams.{target}",
        source={"store": store},
        target={"path": "new/app"},
        conversion={"allow": ["loss:headers", "loss:timestamp"]},
    )
