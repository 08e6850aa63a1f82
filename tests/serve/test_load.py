"""Clients of a service, a process of its own, while other processes migrate the store that it answers from."""

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.serve.migrating import BOTH, NEW, OLD, Clients, Migration, Stage, key_of, serving_process, value_of
from tests.shared.locks import another_adapter
from tests.support import KEY_VALUE, TIMESTAMPED

GUARD_SECONDS = 60.0
"""A client that was refused is answered within this time, on a machine that is as busy as can be."""


@pytest.mark.parametrize(("records", "rounds"), [(10_000, 1), (100_000, 10)], ids=["short", "long"])
def test_clients_get_right_answers_all_through_a_migration(tmp_path: Path, records: int, rounds: int) -> None:
    migration = Migration(tmp_path, records).make()
    with serving_process(migration.spec) as url, Clients(url, records) as clients:
        clients.wait(100)
        migration.verb("run", "--no-spark")
        assert not clients.by_format["new"]
        for _ in range(rounds):
            _switch(clients, migration, "cutover")
            _switch(clients, migration, "rollback")
        _switch(clients, migration, "cutover")
        migration.verb("finalize", "--yes")
        clients.wait(100)
        retries = httpx.get(f"{url}/metrics").text
    assert clients.wrong == []
    assert clients.longest_refusal < GUARD_SECONDS
    refused = sum(count for outcome, count in clients.answers.items() if outcome.endswith("503"))
    assert refused <= 10 * (2 * rounds + 1)
    assert "stateferry_serve_retries_total" in retries
    assert min(clients.by_format[each] for each in BOTH) > 1000
    assert {"key 200", "range 200", "pages 200", "scan"} <= clients.answers.keys()


def _switch(clients: Clients, migration: Migration, verb: str) -> None:
    """Before the verb and after it the answers are of one store; from its beginning to its end, of either."""
    clients.stage.set(BOTH)
    migration.verb(verb)
    clients.stage.set(NEW if verb == "cutover" else OLD)
    clients.wait(100)


_KILLED_HALF_WAY = """
import os, sys
from migrate import load_spec, {verb}
{verb}(load_spec(sys.argv[1]), on_event=lambda event: event.name == "{verb}.exchanged" and os._exit(9))
"""


def test_in_the_middle_of_a_killed_switch_each_partition_answers_in_its_format(tmp_path: Path) -> None:
    migration = Migration(tmp_path, 200).make()
    migration.verb("run", "--no-spark")
    with serving_process(migration.spec) as url, httpx.Client(base_url=url) as client:
        assert _formats(client) == ["old", "old"]
        for verb, half, whole in (("cutover", ["new", "old"], "new"), ("rollback", ["old", "new"], "old")):
            command = [sys.executable, "-c", _KILLED_HALF_WAY.format(verb=verb), str(migration.spec)]
            assert subprocess.run(command, check=False, capture_output=True).returncode == 9
            assert _formats(client) == half
            migration.verb(verb)
            assert _formats(client) == [whole, whole]


def _formats(client: httpx.Client) -> list[str]:
    """Of both partitions; by keys, ranges, pages and a scan, which must agree."""
    found = [client.get(f"/stores/orders/keys/{key_of(number)}").json() for number in range(400)]
    by_partition = [*found[::2], *found[1::2]]
    lines = client.get("/stores/orders/all").text.splitlines()
    assert len(lines) == 401
    assert [httpx.Response(200, text=line).json() for line in lines[:-1]] == by_partition
    assert client.get("/stores/orders/range?limit=1000").json()["records"] == by_partition
    assert [(each["key"], each["value"]) for each in found] == [(key_of(n), value_of(n)) for n in range(400)]
    formats = [{"new" if "timestamp" in each else "old" for each in own} for own in (found[::2], found[1::2])]
    described = client.get("/stores/orders").json()["partitions"]
    told = ["old" if each["format"] == KEY_VALUE else "new" for each in described]
    assert [{each} for each in told] == formats
    return told


def test_a_service_beside_an_adapter_misses_no_record_while_it_converges(tmp_path: Path) -> None:
    records = 10_000
    Migration(tmp_path, records).make()
    paths = [str(tmp_path / f"app/0_{partition}/rocksdb/orders") for partition in (0, 1)]
    serdes = ["--key-serde", "string", "--value-serde", "string"]
    options = ["--store", "orders", "--format", TIMESTAMPED, "--stale", *serdes]
    stage = Stage()
    stage.set(BOTH)
    with (
        another_adapter(*paths) as converge,
        serving_process(tmp_path / "app", *options) as url,
        Clients(url, records, stage) as clients,
    ):
        clients.wait(50)
        converge()
        clients.wait(50)
    assert clients.wrong == []
    assert clients.longest_refusal < GUARD_SECONDS
    assert clients.by_format["old"] == 0
    assert clients.by_format["new"] > 2 * records
