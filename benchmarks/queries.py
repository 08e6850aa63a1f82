"""How many keys a view looks up in a second: one thread, in process, on a store that is in the page cache."""

from __future__ import annotations

import random
import time
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.results import Bar, Result
from benchmarks.rounds import measure
from benchmarks.setting import SMALL, Setting
from migrate.queries.open.partition import StoreDefinition
from migrate.queries.queryable_stores import QueryableStores
from migrate.queries.views.view_types import QueryableStoreTypes

GETS_BAR = 100_000
_GETS = 200_000
_SEED = 20240117


def point_gets(source: str) -> dict[str, Any]:
    """Seconds of `_GETS` gets of keys at random, each of which is there, once all of them were read before."""
    path = Path(source)
    stores = QueryableStores.of_directory(path, {path.name: StoreDefinition("kafka-streams.key-value")})
    view = stores.store(path.name, QueryableStoreTypes.key_value())
    with view.all() as records:
        keys = [key for key, _ in islice(records, 0, None, SMALL // _GETS)]
    random.Random(_SEED).shuffle(keys)
    missing = sum(view.get(key) is None for key in keys)
    if missing:
        raise AssertionError(f"{missing} keys of the scan have no value")
    get = view.get
    started = time.perf_counter(), time.process_time()
    for key in keys:
        get(key)
    return {"wall s": time.perf_counter() - started[0], "CPU s": time.process_time() - started[1], "gets": len(keys)}


def gets(setting: Setting) -> list[Result]:
    """Point gets through a key-value view."""
    store = setting.store(SMALL)
    facts = [measure("point-gets", {"source": str(store.path)}).facts for _ in range(setting.rounds)]
    rates = {clock: sorted(each["gets"] / each[clock] for each in facts) for clock in ("wall s", "CPU s")}
    result = Result(
        "queries, gets", f"{_GETS:,} point gets, {store.words}", ["a second is of", "gets/s, median", "best"]
    )
    result.rows = [
        [clock.removesuffix(" s"), f"{rate[len(rate) // 2]:,.0f}", f"{rate[-1]:,.0f}"] for clock, rate in rates.items()
    ]
    result.raw = {"rounds": facts}
    reached = rates["CPU s"][len(facts) // 2]
    result.bars.append(Bar(result.name, "gets/s of CPU, one thread", GETS_BAR, reached))
    return [result]
