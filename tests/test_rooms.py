"""The rooms of `migrate/`: what may import what, and how many modules a room holds. docs/architecture.md draws them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MIGRATE = ROOT / "migrate"
MODULES_OF_A_ROOM = 18
ENTRIES_AT_THE_TOP = 17

# From bottom to top: a room imports rooms of lower rows only. `formats` lies below all of them.
ROWS = (
    ("library_messages",),
    ("errors",),
    ("model",),
    ("stores",),
    ("engine", "kafka", "spec", "systems"),
    ("batch", "dual"),
    ("dry_run", "survey", "queries"),
    ("show",),
    ("serve",),
    ("cli",),
    ("__main__",),
)
BATCH_ROWS = (
    ("stop", "run_lock", "home"),
    ("source", "chunk"),
    ("ledger",),
    ("identity", "context", "log"),
    ("plan", "retired"),
    ("changelog",),
    ("status",),
    ("preflight",),
    ("steps", "switch"),
    ("run", "catch_up"),
    ("replay",),
)

MODULES = {
    path.relative_to(MIGRATE).with_suffix("").parts: path
    for path in sorted(MIGRATE.rglob("*.py"))
    if path.parent != MIGRATE or path.name != "__init__.py"
}


def _imported(path: Path) -> Iterator[tuple[str, ...]]:
    """Each name imported anywhere in a module, in functions and for type checking too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((*str(node.module).split("."), alias.name) for alias in node.names)


def _row(rows: tuple[tuple[str, ...], ...], room: str) -> int:
    return next(number for number, names in enumerate(rows) if room in names)


def _upward(rows: tuple[tuple[str, ...], ...], *below: str) -> list[str]:
    """Imports from one room to another that is not in a lower row; `below` leads to the folder of the rooms."""
    depth = len(below)
    return [
        f"{'.'.join(module)} imports {'.'.join(name)}"
        for module, path in MODULES.items()
        if module[:depth] == below and len(module) > depth and module[depth] != "__init__"
        for name in _imported(path)
        if name[: depth + 1] == ("migrate", *below) and len(name) > depth + 1
        if name[depth + 1] != module[depth] and _is_room(name[: depth + 2])
        if _row(rows, name[depth + 1]) >= _row(rows, module[depth])
    ]


def _is_room(name: tuple[str, ...]) -> bool:
    path = ROOT.joinpath(*name)
    return path.is_dir() or path.with_suffix(".py").is_file()


def test_each_room_imports_lower_rows_only() -> None:
    assert _upward(ROWS) == []


def test_each_room_of_the_batch_imports_lower_rows_only() -> None:
    assert _upward(BATCH_ROWS, "batch") == []


@pytest.mark.parametrize("rows, folder", [(ROWS, MIGRATE), (BATCH_ROWS, MIGRATE / "batch")])
def test_each_room_has_a_row(rows: tuple[tuple[str, ...], ...], folder: Path) -> None:
    assert {name for names in rows for name in names} == _entries(folder)


def _entries(folder: Path) -> set[str]:
    return {path.stem for path in folder.iterdir() if _is_entry(path)} - {"__init__"}


def _is_entry(path: Path) -> bool:
    return (path.is_dir() and (path / "__init__.py").is_file()) or path.suffix == ".py"


def test_a_command_line_asks_the_package_for_its_verbs() -> None:
    """Only the command line imports the exports of `migrate` itself: below it, that would be a way around the rows."""
    exports = {
        f"{'.'.join(module)} imports {'.'.join(name)}"
        for module, path in MODULES.items()
        if module[0] != "cli"
        for name in _imported(path)
        if name[0] == "migrate" and not _is_room(name[:2])
    }
    assert exports == set()


def test_the_adapter_stands_by_itself() -> None:
    assert _rooms_imported("dual") & {"batch", "spec"} == set()


def test_an_executor_needs_neither_the_ledger_nor_a_system() -> None:
    """So that the chunk's modules are all that a worker loads."""
    chunk = {module for module in MODULES if module[:2] == ("batch", "chunk")}
    found = {name[1:3] for module in chunk for name in _imported(MODULES[module]) if name[0] == "migrate"}
    assert chunk
    assert {name for name in found if name == ("batch", "ledger") or name[0] == "systems"} == set()


def _rooms_imported(room: str) -> set[str]:
    modules = [path for module, path in MODULES.items() if module[0] == room]
    assert modules
    return {name[1] for path in modules for name in _imported(path) if name[0] == "migrate" and len(name) > 1}


def test_no_modules_import_each_other_in_a_circle() -> None:
    circles: list[list[str]] = []
    finished: set[str] = set()
    modules = {".".join(("migrate", *parts)): _imports_on_loading(path) for parts, path in MODULES.items()}

    def follow(module: str, way: list[str]) -> None:
        if module in way:
            circles.append([*way[way.index(module) :], module])
        elif module not in finished:
            for other in sorted(modules[module] & modules.keys()):
                follow(other, [*way, module])
            finished.add(module)

    for module in modules:
        follow(module, [])
    assert circles == []


def _imports_on_loading(path: Path) -> set[str]:
    """Modules that are imported when this one is, or for its types."""
    found: set[str] = set()
    for node in ast.walk(_without_functions(ast.parse(path.read_text(encoding="utf-8")))):
        if isinstance(node, ast.ImportFrom):
            found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def _without_functions(tree: ast.Module) -> ast.Module:
    tree.body = [node for node in tree.body if not isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return tree


def test_the_top_shows_few_entries() -> None:
    assert len(_entries(MIGRATE)) <= ENTRIES_AT_THE_TOP


@pytest.mark.parametrize("package", ["formats", "migrate", "jobs"])
def test_no_room_is_crowded(package: str) -> None:
    folders = [ROOT / package, *(path.parent for path in (ROOT / package).rglob("__init__.py"))]
    counts = {folder: len([path for path in folder.glob("*.py") if path.name != "__init__.py"]) for folder in folders}
    assert {folder: count for folder, count in counts.items() if count > MODULES_OF_A_ROOM} == {}
