"""The job of `benchmarks.quix`: one life of an application of Quix Streams, and what a message of it costs."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.rounds import seconds, seconds_since

Facts = dict[str, Any]
OLD, NEW = "total", "totals"
_NEVER = 1e9
_ALL = 1_000_000


def quix_application(
    *,
    bootstrap: str,
    topic: str,
    group: str,
    folder: str,
    code: str,
    messages: int,
    converges: bool = True,
    before: int = 0,
) -> Facts:
    """Of so many messages; of none: until everything has converged. `code`: old, new or dual.

    `converges`: else the adapter moves nothing by itself. The first messages, `before`, are not measured.
    """
    from quixstreams import Application  # here: other jobs do without it

    from migrate.processors.quix import DualState, Renamed

    application = Application(
        broker_address=bootstrap,
        consumer_group=group,
        state_dir=Path(folder),
        auto_offset_reset="earliest",
        commit_interval=1.0,
        consumer_poll_timeout=0.1 if messages else 0.001,
        loglevel="WARNING",
    )
    sdf = application.dataframe(application.topic(topic, key_deserializer="bytes", value_deserializer="json"))
    function = _old if code == "old" else _new
    begun: list[dict[str, float]] = []
    numbers = count()

    def begin(_: object) -> None:
        if next(numbers) == before:
            begun.append(seconds())

    sdf.update(begin)
    dual = None
    if code == "dual":
        pace: dict[str, Any] = {} if converges else {"interval": _NEVER}
        pace = pace if messages else {"share": 1, "interval": 1e-9, "per_checkpoint": _ALL}
        dual = DualState(sdf, {NEW: Renamed(OLD, lambda total: {"sum": total})}, **pace)
        function = dual(function)
        if not messages:
            _stop_when_converged(application, dual, begun)
    sdf = sdf.apply(function, stateful=True)
    sdf.to_topic(application.topic(f"{topic}-totals", key_serializer="bytes", value_serializer="json"))
    application.run(count=messages, collect=False)
    return {"seconds": seconds_since(begun[0]), "moved": 0 if dual is None else dual.progress.moved_by_converge}


def _old(order: dict[str, Any], state: Any) -> dict[str, Any]:  # noqa: ANN401 - Quix' state
    total = state.get(OLD, 0) + order["amount"]
    state.set(OLD, total)
    return {"customer": order["customer"], "total": total}


def _new(order: dict[str, Any], state: Any) -> dict[str, Any]:  # noqa: ANN401 - Quix' state
    totals = state.get(NEW, {"sum": 0})
    total = totals["sum"] + order["amount"]
    state.set(NEW, {"sum": total})
    return {"customer": order["customer"], "total": total}


def _stop_when_converged(application: Any, dual: Any, begun: list[dict[str, float]]) -> None:  # noqa: ANN401
    def look() -> None:
        if not begun and dual.progress.old_keys_left:
            begun.append(seconds())
        if dual.is_converged:
            application.stop()

    application._dataframe_registry.register_periodic_task(look)


JOBS = {"quix": quix_application}
