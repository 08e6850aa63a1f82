"""Which engine does the work: by the setting, by what each one declines, and by how much there is to do."""

from dataclasses import replace
from pathlib import Path

import pytest

from formats import FORMATS, Conversion
from migrate import RefusedError
from migrate.engine import engines
from migrate.engine.bail_out import BailOutError
from migrate.engine.chunk_source import Inputs
from migrate.engine.engine import FamilyWork, Hooks, NewFamily, compare, digest, rewrite
from migrate.engine.engines import choose, engines_for
from migrate.engine.left_out import LeftOut
from migrate.engine.portable import Portable
from migrate.engine.rejects import RejectsByReason
from migrate.model.engine_choice import EngineSetting
from migrate.model.key_range import KeyRange
from migrate.model.plan import FamilyMapping
from migrate.stores.rocksdb.writing import TableOptions, create_database
from tests.shared.second_engine import LEFT, SecondEngine, use
from tests.support import make_store

MUCH = 1 << 40
LEAVES = "second declines: it does not like left"
CALLS = "second declines: the conversion has a function"
LITTLE = "so little data that starting the second engine takes longer"
TAKEN = FamilyWork(
    Inputs(("none",)), FamilyMapping(source="default", target="default"), KeyRange(), Conversion(FORMATS[0], FORMATS[0])
)
DECLINED = replace(TAKEN, mapping=FamilyMapping(source=LEFT, target=LEFT))
CALLED = replace(TAKEN, conversion=Conversion(FORMATS[0], FORMATS[0], function=lambda record: record))


def _hooks() -> Hooks:
    return Hooks(lambda: None, RejectsByReason(), LeftOut())


@pytest.mark.parametrize(
    ("setting", "works", "size", "found"),
    [
        ("auto", [TAKEN, TAKEN], MUCH, ("auto", "second", "")),
        ("auto", [TAKEN, DECLINED], MUCH, ("auto", "second", "portable", LEAVES)),
        ("auto", [DECLINED] * 3, MUCH, ("portable", "portable", LEAVES)),
        ("auto", [DECLINED, CALLED], MUCH, ("portable", "portable", f"{LEAVES}; {CALLS}")),
        ("auto", [TAKEN], 99, ("portable", "portable", LITTLE)),
        ("auto", [], MUCH, ("auto", "second", "")),
        ("portable", [TAKEN], MUCH, ("portable", "portable", '[run] engine = "portable"')),
        ("native", [TAKEN], 99, ("native", "second", "")),
    ],
)
def test_one_decision_for_a_run(
    setting: EngineSetting, works: list[FamilyWork], size: int, found: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, little_bytes=100)
    choice = choose(setting, works, size)
    assert (choice.setting, *choice.names, choice.why) == found
    assert choice.is_threaded == (choice.names == ("second",))


def test_what_is_sorted_is_converted_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch)
    assert str(choose("auto", [TAKEN], MUCH, is_sorted=True)).startswith("portable (new keys that are sorted are")
    with pytest.raises(RefusedError, match="new keys that are sorted are converted in Python"):
        choose("native", [TAKEN], MUCH, is_sorted=True)


def test_an_engine_that_cannot_work_here_is_not_used_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, missing="numba is not installed")
    assert str(choose("auto", [TAKEN], MUCH)) == "portable (second declines: numba is not installed)"
    with pytest.raises(RefusedError, match="second declines: numba is not installed"):
        choose("native", [TAKEN], MUCH)


@pytest.mark.parametrize("works", [[TAKEN, DECLINED], [DECLINED]])
def test_what_must_be_native_and_cannot_is_refused(works: list[FamilyWork], monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch)
    with pytest.raises(RefusedError, match="second declines: it does not like left") as refused:
        choose("native", works, MUCH)
    assert refused.value.exit_code == 6
    assert '[run] engine = "auto"' in refused.value.hint


def test_where_there_is_one_engine_nothing_has_to_be_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "ENGINES", (Portable(),))
    assert str(choose("auto", [TAKEN], 1)) == "portable"
    with pytest.raises(RefusedError, match="there is no such engine in this installation"):
        choose("native", [TAKEN], MUCH)


@pytest.mark.parametrize(("setting", "engine"), [("auto", "second"), ("native", "second"), ("portable", "portable")])
def test_a_task_uses_the_engines_of_its_setting(
    setting: EngineSetting, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch)
    work = replace(TAKEN, inputs=Inputs((str(make_store(tmp_path / "old", {b"a": b"1"})),)))
    assert rewrite(engines_for(setting), work, _hooks(), tmp_path / "new.sst", TableOptions()).engine == engine


def test_on_a_machine_without_it_a_native_task_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors may differ from the driver, which has decided."""
    use(monkeypatch, missing="numba is not installed")
    work = replace(TAKEN, inputs=Inputs((str(make_store(tmp_path / "old", {b"a": b"1"})),)))
    with pytest.raises(RefusedError, match="numba is not installed"):
        rewrite(engines_for("native"), work, _hooks(), tmp_path / "new.sst", TableOptions())
    assert not (tmp_path / "new.sst").exists()
    assert rewrite(engines_for("auto"), work, _hooks(), tmp_path / "new.sst", TableOptions()).engine == "portable"


def _give_up(_: str) -> None:
    raise BailOutError


@pytest.mark.parametrize("setting", ["auto", "native"])
def test_what_it_gives_up_the_portable_engine_does(
    setting: EngineSetting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, at_work=_give_up)
    work = replace(TAKEN, inputs=Inputs((str(make_store(tmp_path / "old", {b"a": b"1"})),)))
    passed = rewrite(engines_for(setting), work, _hooks(), tmp_path / "new.sst", TableOptions())
    assert (passed.engine, passed.written.records) == ("portable", 1)
    create_database(tmp_path / "new", {}, {"default": [tmp_path / "new.sst"]}, {})
    new = NewFamily(tmp_path / "new", "default")
    compared = compare(engines_for(setting), work, _hooks(), new)
    assert compared is not None and compared.engine == "portable"
    assert digest(engines_for(setting), work, _hooks(), new, KeyRange()) == passed.written


def test_only_the_work_of_a_further_engine_is_guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guard costs time, and the portable engine needs none."""
    steps: list[str] = []

    class Guard:
        def __enter__(self) -> None:
            steps.append("in")

        def __exit__(self, *_: object) -> None:
            steps.append("out")

    use(monkeypatch, at_work=steps.append)
    work = replace(TAKEN, inputs=Inputs((str(make_store(tmp_path / "old", {b"a": b"1"})),)))
    for setting in ("portable", "auto"):
        hooks = _hooks()._replace(guard=Guard)
        rewrite(engines_for(setting), work, hooks, tmp_path / f"{setting}.sst", TableOptions())
    assert steps == ["in", "rewrite", "out"]
    assert isinstance(engines.ENGINES[0], SecondEngine)
