"""An application of Quix Streams that sums numbers by key: its old code, the same with the adapter, its new code.

`python -m tests.live.quix.summing LIFE`, where LIFE is a `Life` as JSON. It prints what became of the old values.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from quixstreams import Application, State
from quixstreams.internal_consumer import InternalConsumer
from quixstreams.internal_producer import InternalProducer
from quixstreams.state.rocksdb import RocksDBStorePartition

from migrate.processors.quix import DualState, Renamed

Code = Literal["old", "dual", "new"]
OLD, NEW = "total", "totals"
DEATHS = {
    "produced": (InternalProducer, "flush"),
    "committed": (InternalConsumer, "commit"),
    "ended": (InternalProducer, "commit_transaction"),
    "written": (RocksDBStorePartition, "write"),
    "restored": (RocksDBStorePartition, "recover_from_changelog_message"),
}
"""Points of a life after which it can end: by name, a method of Quix'."""


@dataclass(frozen=True, slots=True)
class Life:
    """One process of the application, from its start to its end or its death."""

    bootstrap: str
    topic: str
    group: str
    state_dir: str
    code: Code
    guarantee: str = "at-least-once"
    member: str = "a"
    until: Literal["idle", "converged", "killed"] = "idle"
    idle_seconds: float = 1.5
    dies_after: str = ""
    """A point, or "converted"."""
    deaths_turn: int = 1
    """At which time there."""
    share: float = 0.5
    per_checkpoint: int = 1000
    use_changelog: bool = True


def old(value: dict[str, Any], state: State[str, Any]) -> None:
    if "n" in value:
        state.set(OLD, state.get(OLD, 0) + value["n"])
    else:
        state.delete(OLD)


def new(value: dict[str, Any], state: State[str, Any]) -> None:
    if "n" in value:
        totals = state.get(NEW, {"sum": 0})
        state.set(NEW, {"sum": totals["sum"] + value["n"]})
    else:
        state.delete(NEW)


def convert(total: int) -> dict[str, int]:
    return {"sum": total}


def live(life: Life) -> None:
    application = Application(
        broker_address=life.bootstrap,
        consumer_group=life.group,
        state_dir=life.state_dir,
        auto_offset_reset="earliest",
        processing_guarantee=life.guarantee,  # type: ignore[arg-type]
        commit_interval=0.15,
        consumer_poll_timeout=0.05,
        use_changelog_topics=life.use_changelog,
        loglevel="WARNING",
        # As a member that is known, it comes back without waiting for the death of the last one to be noticed, and
        # its producer ends the transaction of that one.
        consumer_extra_config={"group.instance.id": life.member, "session.timeout.ms": 6000},
        producer_extra_config={"transactional.id": f"{life.group}-{life.member}"}
        if life.guarantee == "exactly-once"
        else {},
    )
    sdf = application.dataframe(application.topic(life.topic, value_deserializer="json", key_deserializer="bytes"))
    dying = _dying(life, "converted", convert)
    dual = None
    if life.code == "dual":
        dual = DualState(
            sdf, {NEW: Renamed(OLD, dying)}, share=life.share, per_checkpoint=life.per_checkpoint, interval=0.02
        )
        if life.until == "converged":
            _stop_when_converged(application, dual)
    for point, (kind, method) in DEATHS.items():
        setattr(kind, method, _dying(life, point, getattr(kind, method)))
    function = {"old": old, "new": new, "dual": new}[life.code]
    sdf.update(dual(function) if dual is not None else function, stateful=True)
    application.run(timeout=life.idle_seconds if life.until == "idle" else 3600)
    print(json.dumps({} if dual is None else asdict(dual.progress)))


def _stop_when_converged(application: Application, dual: DualState) -> None:
    def look() -> None:
        if dual.is_converged:
            application.stop()

    application._dataframe_registry.register_periodic_task(look)


def _dying(life: Life, point: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, after whose so manieth call the process dies, where that is what ends this life."""
    if point != life.dies_after:
        return function
    left = [life.deaths_turn]

    def call(*args: Any, **more: Any) -> Any:  # noqa: ANN401 - any function
        result = function(*args, **more)
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return call


if __name__ == "__main__":
    live(Life(**json.loads(sys.argv[1])))
