"""A local Spark takes no connection from the network, where nothing in the environment tells it not to."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.job import CLI, SCRIPT, SPARK_SUBMIT
from tests.spark.processes import command_of, session_of
from tests.spark.scene import make_scene, started

WAITING = """
def convert(record):
    if is_rewriting() and is_first("begun"):
        note("waiting")
        wait_until((MARKS / "go").exists)
    return converted(record)
"""
_LISTENING = "0A"


def listening(pid: int) -> Iterator[str]:
    """The addresses, as the kernel spells them, on which any process takes connections."""
    sockets = {target[8:-1] for fd in Path(f"/proc/{pid}/fd").iterdir() if (target := _link(fd)).startswith("socket:[")}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == _LISTENING and inode in sockets:
                yield local.partition(":")[0]


def _link(fd: Path) -> str:
    try:
        return str(fd.readlink())
    except FileNotFoundError:
        return ""


def is_loopback(address: str) -> bool:
    """127.0.0.1, that in IPv6's clothes, or ::1."""
    return re.fullmatch(r"(0{16}FFFF0000)?0100007F|0{24}01000000", address) is not None


@pytest.mark.parametrize(
    "command",
    [[SPARK_SUBMIT, "--master", "local[2]", SCRIPT, "--spec"], [*CLI, "run", "--master", "local[2]"]],
    ids=["job", "run"],
)
def test_a_local_run_listens_on_the_loopback_alone(command: list[str], tmp_path: Path) -> None:
    scene = make_scene(tmp_path, WAITING, records=500)
    with started(["env", "-u", "SPARK_LOCAL_IP", *command, str(scene.file), "--json"], scene, "job") as job:
        job.await_note("waiting")
        jvms = [pid for pid in session_of(job.process.pid) if "java" in command_of(pid).partition(" ")[0]]
        addresses = [address for pid in jvms for address in listening(pid)]
        (scene.marks / "go").touch()
        done = job.end()
    assert done.exit_code == 0, done.errors
    assert jvms
    assert len(addresses) >= 2, "the driver and its block manager"
    assert [address for address in addresses if not is_loopback(address)] == []
