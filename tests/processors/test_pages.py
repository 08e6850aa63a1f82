"""The code of the pages does what they say, in the real hosts."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import faust
import pytest

from migrate.processors.faust import DualTable
from tests.processors.quix_host import Context

ROOT = Path(__file__).parents[2]


def block_with(page: str, what: str) -> str:
    """The one piece of Python in a page that contains it."""
    blocks: list[str] = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    (found,) = [block for block in blocks if what in block]
    return found


@pytest.mark.parametrize("page", ["README.md", "docs/processors.md"])
def test_an_old_total_shows_through_in_quix_streams(page: str, tmp_path: Path) -> None:
    context = Context(tmp_path)
    context.state(b"alice").set("total", 5)

    def count(_: object, state: Any) -> int:  # noqa: ANN401 - as the function of a dataframe
        total: int = state.get("totals", {"sum": 0})["sum"]
        return total

    applied = []
    sdf = SimpleNamespace(**vars(context.sdf), apply=lambda function, *, stateful: applied.append((function, stateful)))
    exec(block_with(page, "migrate.processors.quix"), {"sdf": sdf, "count": count})
    ((function, stateful),) = applied
    context.commit()
    assert stateful
    assert context.call(function, b"alice") == 5
    context.close()


def test_two_tables_of_faust_are_one(tmp_path: Path) -> None:
    app = faust.App("pages", store="rocksdb://", datadir=tmp_path)
    names: dict[str, Any] = {"app": app}
    exec(block_with("docs/processors.md", "migrate.processors.faust"), names)
    assert isinstance(names["counts"], DualTable)
    assert {*app.tables} == {"counts", "counts_v2"}
