"""New stores are opened, written and compacted by the RocksDB that wrote the old ones."""

import subprocess
from pathlib import Path

import pytest

from migrate import RefusedError, Spec, cutover, plan, run
from tests.live.kafka_streams.program import require_live
from tests.live.maven import cache_locked, run_maven
from tests.support import make_spec, raises

HERE = Path(__file__).parent
RECORDS = 1000
KEY_VALUE, TIMESTAMPED = "kafka-streams.key-value", "kafka-streams.timestamped-key-value"
FAMILY = "keyValueWithTimestamp"


def _owner(version: str, *arguments: object) -> list[str]:
    with cache_locked("rocksdb-classpath") as cache:
        file = cache / "rocksdb-classpath" / version
        if not file.exists():
            properties = {"rocksdb.version": version, "mdep.outputFile": str(file)}
            run_maven(HERE / "pom.xml", ["dependency:build-classpath"], properties)
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", file.read_text(), str(HERE / "Owner.java")]
    done = subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def _made(owner: str, base: Path, **target: str) -> tuple[Path, Spec]:
    require_live()
    store = base / "app/0_0/rocksdb/counts"
    store.parent.mkdir(parents=True)
    _owner(owner, "make", store, RECORDS)
    (base / "app/0_0/.checkpoint").write_text("0\n1\napp-counts-changelog 0 999\n")
    spec = make_spec(
        base,
        base / "app",
        source_format=KEY_VALUE,
        target_format=TIMESTAMPED,
        source={"store": "counts"},
        target={"path": None, **target},
        conversion={"allow": ["unclean-source"]},
    )
    return store, spec


@pytest.mark.parametrize("version", ["6.6.4", "6.19.3", "6.22.1.1", "6.26.1", "6.29.4.1"])
def test_the_owner_opens_writes_and_compacts_its_new_store(version: str, tmp_path: Path) -> None:
    store, spec = _made(version, tmp_path)
    run(spec)
    cutover(spec)
    found, compacted, reopened = _owner(version, "use", store, FAMILY)
    assert (int(found), int(compacted), int(reopened)) == (RECORDS, RECORDS + 1, RECORDS + 1)


def test_an_owner_that_could_not_is_named_unless_a_newer_one_is_to_open_it(tmp_path: Path) -> None:
    version = "5.18.4"
    _, spec = _made(version, tmp_path / "refused")
    refused = raises(RefusedError, rf"RocksDB {version}.* cannot read the new store", run, spec)
    assert '[target] version = "4.1"' in (refused.hint or "")
    assert [each.name for each in plan(spec).checks if each.outcome == "failed"] == ["target.version"]
    store, spec = _made(version, tmp_path / "named", version="3.9")
    run(spec)
    cutover(spec)
    assert _owner("6.29.4.1", "use", store, FAMILY)[0] == str(RECORDS)
