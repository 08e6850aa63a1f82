"""The rooms of the house: what may import what, and how much a room and a module hold. See docs/architecture.md."""

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("formats", "migrate", "jobs")
MODULES_OF_A_ROOM = 18
MODULES_WITH_ONE_IMPORTER = 80
LINES_OF_SUCH_A_MODULE = 60

# From bottom to top: a room imports rooms of lower rows only. `formats` lies below all of them, `jobs` above.
ROWS = {
    "migrate": (
        ("library_messages",),
        ("errors",),
        ("model",),
        ("stores",),
        ("engine", "kafka", "spec", "systems"),
        ("batch", "dual"),
        ("dry_run", "survey", "queries", "processors"),
        ("rows",),
        ("show",),
        ("serve",),
        ("cli",),
        ("__main__",),
    ),
    "migrate.batch": (
        ("home", "stop", "run_lock"),
        ("source", "chunk", "ledger"),
        ("identity", "log"),
        ("context",),
        ("frame",),
        ("plan",),
        ("changelog",),
        ("status",),
        ("preflight",),
        ("steps", "switch"),
        ("run", "catch_up"),
        ("replay", "importing"),
    ),
}
# Modules that a table names, one line each: a registry's entries.
ENTRIES = ("formats.", "migrate.systems.", "jobs.")


def _modules() -> dict[str, Path]:
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = _modules()
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}


def _names_imported(module: str) -> Iterator[str]:
    """Each name imported anywhere in a module, in functions and for type checking too."""
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _module_of(name: str) -> str:
    while name and name not in MODULES:
        name = name.rpartition(".")[0]
    return name


IMPORTS = {module: {_module_of(name) for name in _names_imported(module)} - {"", module} for module in MODULES}


def _room(module: str, folder: str) -> str:
    return module.removeprefix(f"{folder}.").partition(".")[0] if module.startswith(f"{folder}.") else ""


@pytest.mark.parametrize("folder", ROWS)
def test_each_room_imports_lower_rows_only(folder: str) -> None:
    rows = {room: number for number, rooms in enumerate(ROWS[folder]) for room in rooms}
    upward = [
        f"{module} imports {other}"
        for module, others in IMPORTS.items()
        for other in others
        if (here := _room(module, folder)) and (there := _room(other, folder)) and here != there
        if rows[there] >= rows[here]
    ]
    assert upward == []


@pytest.mark.parametrize("folder", ROWS)
def test_each_room_has_a_row(folder: str) -> None:
    rooms = [_room(module, folder) for module in MODULES if _room(module, folder)]
    assert {room for row in ROWS[folder] for room in row} == set(rooms)


def test_only_the_command_line_asks_the_package_for_its_verbs() -> None:
    """Below it, the exports of `migrate` itself would be a way around the rows."""
    assert [module for module, others in IMPORTS.items() if "migrate" in others and _is_below(module)] == []


def _is_below(module: str) -> bool:
    return module.startswith("migrate.") and not module.startswith("migrate.cli.")


@pytest.mark.parametrize(
    "room, unknown",
    [
        ("formats", ("migrate", "jobs")),
        ("migrate", ("jobs",)),
        ("migrate.dual", ("migrate.batch", "migrate.spec")),
        ("migrate.processors", ("migrate.batch", "migrate.spec", "migrate.systems", "migrate.queries")),
        ("migrate.spec", ("migrate.systems",)),
        ("migrate.systems", ("migrate.spec",)),
        ("migrate.batch.chunk", ("migrate.batch.ledger", "migrate.batch.source", "migrate.systems")),
        ("migrate.batch.ledger", ("migrate.batch.source", "migrate.batch.chunk")),
    ],
)
def test_a_room_knows_nothing_of(room: str, unknown: tuple[str, ...]) -> None:
    """Among them: the adapter stands by itself, and the chunk's modules are all that a worker loads."""
    inside = [module for module in MODULES if _is_in(module, room)]
    assert inside
    assert [f"{m} imports {other}" for m in inside for other in IMPORTS[m] if _is_in(other, *unknown)] == []


def _is_in(module: str, *rooms: str) -> bool:
    return any(module == room or module.startswith(f"{room}.") for room in rooms)


@pytest.mark.parametrize(
    "library, places",
    [
        ("rocksdict", ("migrate.stores.rocksdb",)),
        ("confluent_kafka", ("migrate.kafka",)),
        ("deltalake", ("migrate.batch.ledger", "migrate.batch.plan.row_table")),
        ("quixstreams", ("migrate.processors.quix",)),
        ("faust", ("migrate.processors.faust",)),
    ],
)
def test_a_library_is_imported_in_one_room(library: str, places: tuple[str, ...]) -> None:
    callers = [module for module in MODULES for name in _names_imported(module) if name.partition(".")[0] == library]
    assert callers
    assert [module for module in callers if not _is_in(module, *places)] == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    circles: list[list[str]] = []
    finished: set[str] = set()

    def follow(module: str, way: list[str]) -> None:
        if module in way:
            circles.append([*way[way.index(module) :], module])
        elif module not in finished:
            for other in sorted(IMPORTS[module]):
                follow(other, [*way, module])
            finished.add(module)

    for module in MODULES:
        follow(module, [])
    assert circles == []


def _rooms() -> Iterator[Path]:
    for package in PACKAGES:
        yield from (path.parent for path in (ROOT / package).rglob("__init__.py"))


def test_no_room_is_crowded() -> None:
    counts = {room: len([*room.glob("*.py")]) - 1 for room in _rooms()}
    assert {room: count for room, count in counts.items() if count > MODULES_OF_A_ROOM} == {}


def test_no_room_has_one_module() -> None:
    """A folder for one module is a folder too many."""
    counts = {room.name: len([*room.rglob("*.py")]) - 1 for room in _rooms()}
    assert {room: count for room, count in counts.items() if count < 2} == {}


def _importers() -> dict[str, set[str]]:
    found = defaultdict(set)
    for module, others in IMPORTS.items():
        for other in others:
            found[other].add(module)
    return found


def test_a_module_with_one_importer_is_worth_a_file() -> None:
    lonely = [module for module, importers in _importers().items() if len(importers) == 1 and not _is_a_face(module)]
    assert len(lonely) <= MODULES_WITH_ONE_IMPORTER
    short = {module: len(MODULES[module].read_text(encoding="utf-8").splitlines()) for module in lonely}
    few = LINES_OF_SUCH_A_MODULE
    assert {m: n for m, n in short.items() if n < few and not m.startswith(ENTRIES)} == {}


def _is_a_face(module: str) -> bool:
    return MODULES[module].name == "__init__.py"


def _twice(names: Iterable[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}


def test_no_two_classes_have_one_name() -> None:
    names = [node.name for tree in TREES.values() for node in tree.body if isinstance(node, ast.ClassDef)]
    assert _twice(names) == set()


def test_no_two_modules_have_one_name() -> None:
    """But a processor's adapter, which is imported by its users, may be called as the batch job's room for it."""
    modules = [module for module in MODULES if _is_in(module, "migrate") and not _is_a_face(module)]
    modules = [module for module in modules if not _is_in(module, "migrate.processors")]
    assert _twice(module.rpartition(".")[2] for module in modules) == set()
