"""Going back: the old stores stand as if nothing had been; what the new ones were given is not lost silently."""

from pathlib import Path

from migrate import cutover, rollback, run, verify
from tests.batch.switch.support import DATA, PARTITIONS, TASKS, Application, StopAt, content, modes, write_to
from tests.support import make_store, numbered, raw_spec, read_family, tree_state


def test_the_old_stores_are_back_bit_by_bit(app: Application) -> None:
    before = {partition: content(app.live(partition)) for partition in PARTITIONS}
    owners = {partition: set(modes(app.live(partition))) for partition in PARTITIONS}
    for _ in range(2):
        cutover(app.spec)
        report = rollback(app.spec)
        assert (report.state, report.old_stores) == ("rolled back", None)
        assert {partition: content(app.live(partition)) for partition in PARTITIONS} == before
        assert {partition: set(modes(app.live(partition))) for partition in PARTITIONS} == owners
        assert [path for path in (app.spec.home / "old").rglob("*") if path.is_file()] == []
    assert run(app.spec).state == "verified"
    assert verify(app.spec).verification.ok
    assert cutover(app.spec).state == "cut over"


def test_the_way_back_does_not_ask_the_conversion(tmp_path: Path) -> None:
    """The function's module is gone, and so is the plan: rollback needs its journal and nothing else."""
    source = make_store(tmp_path / "old", numbered(100))
    (tmp_path / "shout.py").write_text("def convert(record):\n    return record\n")
    spec = raw_spec(tmp_path, source, target={"path": None}, conversion={"function": "shout:convert"})
    run(spec)
    cutover(spec)
    (tmp_path / "shout.py").unlink()
    next(spec.home.glob("plan-*.json")).unlink()
    assert rollback(spec).state == "rolled back"
    assert read_family(source) == numbered(100)


def test_a_second_rollback_does_nothing(app: Application) -> None:
    cutover(app.spec)
    first = rollback(app.spec)
    before = tree_state(app.path)
    assert rollback(app.spec) == first
    assert tree_state(app.path) == before
    assert app.steps() == ["cutting-over", "cut-over", "rolling-back", "rolled-back"]


def test_the_old_stores_position_goes_back_as_far_as_its_records(app: Application) -> None:
    """The new version of the application ran, and moved every line of the tasks on."""
    before = {task: app.checkpoint(task).read_text() for task in TASKS}
    positions = {path: path.read_text() for path in app.path.glob("*/*.position")}
    offsets = {partition: app.offset(partition) for partition in PARTITIONS}

    def look(name: str) -> None:
        """They are lowered before the stores are exchanged."""
        if name in ("rollback.positioned", "rollback.exchanged", "rollback.done"):
            assert {partition: app.offset(partition) for partition in PARTITIONS} == offsets

    cutover(app.spec)
    for partition in PARTITIONS:
        write_to(app.live(partition), family=DATA)
    for task in TASKS:
        moved = [_raised(line) for line in app.checkpoint(task).read_text().splitlines()]
        app.checkpoint(task).write_text("\n".join([*moved, ""]))
    (app.path / "0_0" / "orders.position").write_text("0\n0\n")
    watch = StopAt(look=look)
    rollback(app.spec, discard_new_writes=True, on_event=watch)
    assert watch.seen["rollback.positioned"] == 1
    for task in TASKS:
        for now, then in zip(app.checkpoint(task).read_text().splitlines(), before[task].splitlines(), strict=True):
            is_theirs = "customers" in then or "payments" in then
            assert now == (_raised(then) if is_theirs else then)
    assert {path: path.read_text() for path in app.path.glob("*/*.position")} == positions


def _raised(line: str) -> str:
    *topic, offset = line.split(" ")
    return " ".join([*topic, str(int(offset) + 5000)]) if len(topic) == 2 else line
