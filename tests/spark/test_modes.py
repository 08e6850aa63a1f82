"""What Spark's workers write can be read by nobody who may not read the old store."""

from collections.abc import Callable

from tests.shared.modes import make_application, public_folder, read_by_others
from tests.spark.job import Job

_SPEC = """
name = "orders"
work_dir = "work"
[source]
format = "kafka-streams.key-value"
path = "orders-app"
store = "orders"
[target]
format = "kafka-streams.timestamped-key-value"
path = "new/orders-app"
[conversion]
function = "conversion:convert"
allow = ["changelog", "unclean-source"]
[run]
on_reject = "dead-letter"
max_reject_share = 0.5
"""
_FUNCTION = """
def convert(record):
    if record.key.endswith(b"7"):
        raise ValueError("no sevens")
    return record
"""


def test_nobody_else_reads_the_records_of_a_private_store(submit: Callable[..., Job]) -> None:
    with public_folder() as folder:
        make_application(folder, directories=0o700, files=0o600)
        spec = folder / "migration.toml"
        spec.write_text(_SPEC)
        (folder / "conversion.py").write_text(_FUNCTION)
        job = submit(spec, "local[2]")
        assert job.exit_code == 0, job.errors
        assert any((folder / "work").rglob("*.rejects.parquet"))
        for group in (False, True):
            left = {path.rpartition("/")[2] for path in read_by_others(folder, group=group)}
            assert {name for name in left if not name.endswith(".pyc")} == {"migration.toml", "conversion.py"}
