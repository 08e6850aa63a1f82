"""What Spark's workers write can be read by nobody who may not read the old store."""

from collections.abc import Callable

from tests.shared.modes import make_application, public_folder, read_by_others
from tests.spark.job import Job, write_spec

_EXTRA = """
on_reject = "dead-letter"
max_reject_share = 0.5
[conversion]
function = "conversion:convert"
allow = ["changelog", "unclean-source"]
"""
_FUNCTION = """
def convert(record):
    if record.key.endswith(b"7"):
        raise ValueError("no sevens")
    return record
"""


def test_nobody_else_reads_the_records_of_a_private_store(submit: Callable[..., Job]) -> None:
    with public_folder() as folder:
        make_application(folder / "state", directories=0o700, files=0o600)
        spec = write_spec(folder, _EXTRA)
        (folder / "conversion.py").write_text(_FUNCTION)
        job = submit(spec, "local[2]")
        assert job.exit_code == 0, job.errors
        assert any((folder / "work").rglob("*.rejects.parquet"))
        for group in (False, True):
            left = {path.rpartition("/")[2] for path in read_by_others(folder, group=group)}
            assert {name for name in left if not name.endswith(".pyc")} == {"migration.toml", "conversion.py"}
