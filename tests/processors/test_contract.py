"""Every host of dual reading keeps the contract."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.processors.contract import BAD, DROPPED, History, Host, OnReject, histories, olds
from tests.processors.faust_host import FaustTables
from tests.processors.quix_host import QuixStreams
from tests.processors.spark_host import SparkLists, SparkMap, SparkValues
from tests.processors.store_host import OneDatabase, TwoDatabases

HOSTS: list[type[Host]] = [OneDatabase, TwoDatabases, QuixStreams, FaustTables, SparkValues, SparkLists, SparkMap]


@pytest.mark.parametrize("kind", HOSTS)
@example(
    old={"a": 2, "z": 3}, history=[("set", "a", 1), ("delete", "a"), ("crash",), ("get", "a")], how=("raise", False)
)
@example(old={"a": 2}, history=[("converge",), ("old code", "a", 5), ("get", "a"), ("converge",)], how=("raise", False))
@example(old={"a": BAD, 'b"|"c': 1, "z": DROPPED}, history=[("reopen",), ("converge",)], how=("quarantine", True))
@given(old=olds, history=histories, how=st.tuples(st.sampled_from(["raise", "quarantine"]), st.booleans()))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_random_history(
    kind: type[Host], old: dict[str, int], history: list[tuple[str, ...]], how: tuple[OnReject, bool]
) -> None:
    on_reject, may_drop = how
    with tempfile.TemporaryDirectory(prefix="stateferry-") as folder:
        host = kind(Path(folder), old, on_reject=on_reject, may_drop=may_drop)
        try:
            History(host, old, on_reject=on_reject, may_drop=may_drop).run(history)
        finally:
            host.close()
