"""Options of hosts that contradict each other, or say too little."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from migrate.cli.main import main
from tests.serve.processes import OF_ORDERS
from tests.serve.services import make_orders
from tests.support import make_store, numbered


@pytest.mark.parametrize(
    "options, said",
    [
        (["--peer", "127.0.0.1:1=0"], "the hosts need the number of partitions"),
        (["--peer", "127.0.0.1:1=0", "--hosts", "hosts.toml"], "--hosts and --peer or --standby both say"),
        (["--peer", "127.0.0.1:1=0", "--hosts-from-group"], "--peer or --standby and --hosts-from-group both say"),
        (["--peer", "127.0.0.1:1=0", "--partitions", "2"], "which this one is, is none of them"),
        (["--peer", "127.0.0.1=0", "--partitions", "2"], "'127.0.0.1' is not HOST:PORT"),
        (["--hosts", "nowhere.toml", "--partitions", "2"], "nowhere.toml cannot be read as TOML"),
        (["--hosts-from-group"], "--hosts-from-group: which broker?"),
        (["--bootstrap", "127.0.0.1:1", "--config", "nowhere"], "nowhere cannot be read"),
        (["--bootstrap", "http://kafka:9092"], "--bootstrap: 'http://kafka:9092' is not host:port"),
        (["--config", "nowhere"], "--config goes with a broker"),
        (["--bootstrap", "127.0.0.1:1", "--store", "customers"], "no task directory with the store 'customers'"),
    ],
)
def test_hosts_that_cannot_be_known_are_refused(tmp_path: Path, options: list[str], said: str) -> None:
    place = make_orders(tmp_path / "app")
    ended = CliRunner().invoke(main, ["serve", str(place), "--port", "0", *OF_ORDERS, *options])
    assert ended.exit_code in (2, 6) and said in ended.output, ended.output


@pytest.mark.parametrize("options", [["--partitions", "2", "--peer", "127.0.0.1:1=0"], ["--bootstrap", "127.0.0.1:1"]])
def test_a_store_whose_keys_do_not_tell_their_partitions_has_no_hosts(tmp_path: Path, options: list[str]) -> None:
    """A message's key decides on them: another host would be asked, and would know of no such key."""
    make_store(tmp_path / "shop-data/v1/tables/counts-0.db", numbered(3))
    place = ["--store", "counts", "--format", "faust.table"]
    ended = CliRunner().invoke(main, ["serve", str(tmp_path / "shop-data/v1"), "--port", "0", *place, *options])
    assert ended.exit_code == 2 and "which host has a key cannot be computed" in ended.output, ended.output
