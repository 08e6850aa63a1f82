"""What a report shows in a Python session: short lines, with nothing that is empty."""

from pathlib import Path

from migrate.model.reports import Concern, SwitchReport
from migrate.stores.memory import MemoryStore


def _report(**fields: object) -> SwitchReport:
    values = {"name": "orders", "migration_id": "1f", "state": "cut over", "stores": (Path("/a"),), "old_stores": None}
    rest = {"concerns": (), "changelog": "", "warnings": (), "next_step": "stateferry finalize SPEC"}
    return SwitchReport.model_validate(values | rest | fields)


def test_a_report_prints_a_line_for_each_field_that_is_not_empty() -> None:
    assert str(_report()) == (
        "SwitchReport\n  name: orders\n  migration_id: 1f\n  state: cut over\n  stores: /a\n"
        "  next_step: stateferry finalize SPEC"
    )
    assert repr(_report()).startswith("SwitchReport(name=orders, migration_id=1f, state=cut over, ")


def test_parts_are_counted_and_long_lists_are_cut() -> None:
    concern = Concern(kind="rejects", sentence="3 records are left out", fix="x")
    text = str(_report(concerns=(concern, concern), stores=tuple(Path(f"/{number}") for number in range(9))))
    assert "\n  concerns: 2 Concern\n" in text
    assert "\n  stores: /0, /1, /2 and 6 more\n" in text


def test_control_characters_do_not_reach_the_terminal() -> None:
    text = str(_report(name="a\x1b[31m", stores=(Path("/b\x1b"),)))
    assert "\x1b" not in text


def test_an_open_store_says_where_it_is_and_how() -> None:
    store = MemoryStore()
    assert repr(store) == "<MemoryStore: the store in memory, RUNNING>"
    store.close()
    assert repr(store) == "<MemoryStore: the store in memory, NOT_RUNNING>"
