"""PySpark's handles in Spark's own TwsTester, which needs no JVM: values, lists and maps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues
from pyspark.sql.streaming.tws_tester import TwsTester

from migrate import Progress
from migrate.processors.spark import DualList, DualMap, DualValue
from tests.processors import contract
from tests.processors.contract import KEYS, Host, OnReject

Dual = DualValue | DualList | DualMap


def convert(old: tuple[int]) -> tuple[int, str] | None:
    new = contract.convert(old[0])
    return None if new is None else (new, "new")


class Acting(StatefulProcessor):
    """Does with its handle what it is told to."""

    def __init__(self, declare: Callable[[StatefulProcessorHandle], Dual]) -> None:
        self._declare = declare
        self.act: Callable[[Any], object] = lambda _: None
        self.answer: Any = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.dual = self._declare(handle)

    def handleInputRows(self, key: object, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        self.answer = self.act(self.dual)
        return iter(())

    def close(self) -> None: ...


class SparkValues(Host):
    """A value of each grouping key."""

    kind: type[Dual] = DualValue
    states = "value_states"
    new: tuple[object, ...] = ("totals", "n long, note string")
    old: tuple[object, ...] = ("count", "n int")

    def __init__(self, folder: Path, old: Mapping[str, int], *, on_reject: OnReject, may_drop: bool) -> None:
        self._options: dict[str, Any] = {"convert": convert, "on_reject": on_reject, "may_drop": may_drop}
        self._committed: dict[str, dict[Any, Any]] = {"count": {}, "totals": {}}
        for key, value in old.items():
            self._write_old(self._committed["count"], key, value)
        self.crash()

    def get(self, key: str) -> int | None:
        found = self._do(key, lambda dual: dual.get())
        return None if found is None else int(found[0])

    def exists(self, key: str) -> bool:
        return bool(self._do(key, lambda dual: dual.exists()))

    def set(self, key: str, value: int) -> None:
        self._do(key, lambda dual: dual.update((value, "new")))

    def delete(self, key: str) -> None:
        self._do(key, lambda dual: dual.clear())

    def converge(self) -> None:
        for key in KEYS:
            self._do(key, lambda dual: dual.converge())

    def commit(self) -> None:
        held = getattr(self.tester.handle, self.states)
        self._committed = {name: deepcopy(held[name].state) for name in self._committed}

    def crash(self) -> None:
        self.tester = TwsTester(self._processor())
        for name, state in getattr(self.tester.handle, self.states).items():
            state.state = deepcopy(self._committed[name])

    def reopen(self) -> None:
        self.commit()
        self.crash()

    def run_old_code(self, key: str, value: int) -> None:
        self.commit()
        self._write_old(self._committed["count"], key, value)
        self.crash()

    def copies(self) -> tuple[dict[str, int], dict[str, int]]:
        old, new = ({key: self._plain(value) for key, value in self._committed[n].items()} for n in ("count", "totals"))
        return old, new

    @property
    def progress(self) -> Progress:
        return self._processor_now.dual.progress

    @property
    def is_converged(self) -> None:
        return None

    def rejects(self) -> int:
        return len(self._processor_now.dual.rejects())

    def close(self) -> None: ...

    def _processor(self) -> Acting:
        self._processor_now = Acting(lambda handle: self.kind(handle, new=self.new, old=self.old, **self._options))
        return self._processor_now

    def _do(self, key: str, act: Callable[[Any], object]) -> Any:  # noqa: ANN401 - what it answers
        self._processor_now.act = act
        self.tester.test(key, [Row(x=1)])
        return self._processor_now.answer

    def _write_old(self, state: dict[Any, Any], key: str, value: int) -> None:
        state[key] = (value,)

    def _plain(self, value: Any) -> int:  # noqa: ANN401 - of one copy
        return int(value[0])


class SparkLists(SparkValues):
    """A list of one element of each grouping key."""

    kind = DualList
    states = "list_states"

    def get(self, key: str) -> int | None:
        found = self._do(key, lambda dual: list(dual.get()))
        return int(found[0][0]) if found else None

    def set(self, key: str, value: int) -> None:
        self._do(key, lambda dual: dual.put([(value, "new")]))

    def _write_old(self, state: dict[Any, Any], key: str, value: int) -> None:
        state[key] = [(value,)]

    def _plain(self, value: Any) -> int:  # noqa: ANN401
        return int(value[0][0])


class SparkMap(SparkValues):
    """One map: the keys are its own."""

    kind = DualMap
    states = "map_states"
    new = ("totals", "k string", "n long, note string")
    old = ("count", "k string", "n int")

    def get(self, key: str) -> int | None:
        found = self._do("g", lambda dual: dual.getValue((key,)))
        return None if found is None else int(found[0])

    def exists(self, key: str) -> bool:
        return bool(self._do("g", lambda dual: dual.containsKey((key,))))

    def set(self, key: str, value: int) -> None:
        self._do("g", lambda dual: dual.updateValue((key,), (value, "new")))

    def delete(self, key: str) -> None:
        self._do("g", lambda dual: dual.removeKey((key,)))

    def converge(self) -> None:
        self._do("g", lambda dual: dual.converge())

    def copies(self) -> tuple[dict[str, int], dict[str, int]]:
        old, new = (
            {key[0]: value[0] for key, value in self._committed[name].get("g", {}).items()}
            for name in ("count", "totals")
        )
        return old, new

    def _write_old(self, state: dict[Any, Any], key: str, value: int) -> None:
        state.setdefault("g", {})[(key,)] = (value,)
