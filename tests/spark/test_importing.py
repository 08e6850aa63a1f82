"""A store exported, repaired by SQL, and imported again on Spark, by the commands that the page names."""

from pathlib import Path

from deltalake import DeltaTable, QueryBuilder, write_deltalake

from formats.registry import get_format
from migrate import export, load_spec
from tests.rows.exported import TEXT, expected, orders_spec
from tests.shared.imports import FORMAT, spread, stored
from tests.spark.job import CLI, completed
from tests.support import to_toml

KNOWN = get_format(FORMAT)
KEYS = {"allow": ["changelog"], "key": {"to": {"serde": "string"}}}
REPAIR = """
    SELECT upper(key) AS key, CASE WHEN key LIKE '%7' THEN NULL ELSE value END AS value,
           arrow_cast(5000, 'Timestamp(Microsecond, Some("UTC"))') AS timestamp
    FROM orders WHERE NOT key LIKE '%3'
"""


def test_an_export_is_repaired_by_sql_and_imported(tmp_path: Path) -> None:
    export(orders_spec(tmp_path, conversion={**TEXT, "allow": ["changelog"]}), tmp_path / "table")
    rows = QueryBuilder().register("orders", DeltaTable(str(tmp_path / "table"))).execute(REPAIR).read_all()
    write_deltalake(str(tmp_path / "repaired"), rows)
    target = {"path": "filled/orders-app", "store": "orders", "format": FORMAT, "partitions": 4, "subtopology": 1}
    file = tmp_path / "filled.toml"
    content = {"name": "filled", "work_dir": "work", "target": target, "conversion": KEYS}
    file.write_text(to_toml({**content, "run": {"chunk_size": "16 KiB", "wave_size": "100 KiB"}}))
    command = [*CLI, "import", str(file), "--from", "repaired", "--master", "local[2]", "--json"]
    done = completed(command, tmp_path)
    assert done.exit_code == 0, done.errors
    old = {key: value for records in expected().values() for key, value in records.items()}
    kept = {key.upper(): value for key, value in old.items() if not key.endswith(b"3")}
    wanted = {key: (5).to_bytes(8, "big") + value for key, value in kept.items() if not key.endswith(b"7")}
    totals = done.report["totals"]
    assert (totals["records_in"], totals["records_out"], totals["not_carried"]) == (
        len(kept),
        len(wanted),
        len(kept) - len(wanted),
    )
    found = stored(KNOWN, load_spec(file).target_path or tmp_path, 4, 1)
    assert [each["."] for each in found] == spread(KNOWN, wanted, 4)
    again = completed(command, tmp_path)
    assert again.exit_code == 0
    assert again.report["totals"] == totals
