"""The shape of the code: layers, sizes and names."""

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import migrate

ROOT = Path(__file__).parents[1]
PACKAGES = ("formats", "migrate", "jobs")
MODULE_LINES = 500
FUNCTION_LINES = 40
COMPILED = {"interpret", "run"}
"""Functions of the native engine that may be longer: what is compiled into one loop is one function."""
VAGUE = re.compile(r"(Manager|Helper|Util|Utils|Processor)$")
CALLERS_OF_ROCKSDICT = [f"migrate/stores/rocksdb/{name}.py" for name in ("database", "live", "scan", "writing")]

MODULES = sorted(path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
TESTS = sorted(path.relative_to(ROOT) for path in (ROOT / "tests").rglob("*.py"))


def _tree(module: Path) -> ast.Module:
    return ast.parse((ROOT / module).read_text(encoding="utf-8"))


def _imports(module: Path) -> set[str]:
    """Every module that this one imports, anywhere in its body."""
    found: set[str] = set()
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: relative import"
            found.add(str(node.module))
    return found


def _top_levels(module: Path) -> set[str]:
    return {name.partition(".")[0] for name in _imports(module)}


def _functions(module: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _of(*packages: str) -> list[Path]:
    return [module for module in MODULES if module.parts[0] in packages]


def test_there_is_something_to_look_at() -> None:
    assert {module.parts[0] for module in MODULES} == set(PACKAGES)
    assert "migrate" in _top_levels(Path("migrate/batch/run.py"))


def test_formats_knows_the_standard_library_fastavro_and_itself() -> None:
    allowed = {*sys.stdlib_module_names, "fastavro", "formats", "typing_extensions"}  # the last: type checkers alone
    assert {module: found for module in _of("formats") if (found := _top_levels(module) - allowed)} == {}


def test_migrate_knows_neither_jobs_nor_spark() -> None:
    above = {"jobs", "pyspark", "py4j", "delta"}
    assert {module: found for module in _of("migrate") if (found := _top_levels(module) & above)} == {}


def test_nothing_depends_on_tests_or_examples() -> None:
    outside = {"tests", "examples", "benchmarks"}
    assert {module: found for module in MODULES if (found := _top_levels(module) & outside)} == {}


def test_four_modules_alone_call_rocksdict() -> None:
    assert [module.as_posix() for module in MODULES if "rocksdict" in _top_levels(module)] == CALLERS_OF_ROCKSDICT


def test_a_store_never_sees_a_format() -> None:
    stores = [module for module in MODULES if module.parts[:2] == ("migrate", "stores")]
    assert len(stores) > 15
    assert [module for module in stores if "formats" in _top_levels(module)] == []


def test_modules_are_short() -> None:
    lines = {module: len((ROOT / module).read_text(encoding="utf-8").splitlines()) for module in (*MODULES, *TESTS)}
    assert {module: count for module, count in lines.items() if count > MODULE_LINES} == {}


def test_functions_are_short() -> None:
    long = [
        f"{module}:{function.lineno} {function.name}"
        for module in MODULES
        for function in _functions(module)
        if _body_lines(function) > FUNCTION_LINES and not ("native" in module.parts and function.name in COMPILED)
    ]
    assert long == []


def _body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the body, its docstring left out."""
    body = function.body
    if ast.get_docstring(function) is not None:
        body = body[1:]
    if not body:
        return 0
    return (body[-1].end_lineno or body[-1].lineno) - body[0].lineno + 1


def test_classes_say_what_they_are() -> None:
    classes = [node for module in MODULES for node in ast.walk(_tree(module)) if isinstance(node, ast.ClassDef)]
    assert [node.name for node in classes if VAGUE.search(node.name)] == []


def test_nothing_is_left_to_do() -> None:
    marks = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3)) + r")\b")
    left = [module for module in (*MODULES, *TESTS) if marks.search((ROOT / module).read_text(encoding="utf-8"))]
    assert left == []


def test_no_job_shadows_the_standard_library() -> None:
    """spark-submit puts the folder of the submitted script first on the path."""
    names = {module.stem for module in _of("jobs")} - {"__init__"}
    assert names & sys.stdlib_module_names == set()


def _exported(package: str) -> set[str]:
    return set(importlib.import_module(package).__all__)


@pytest.mark.parametrize("package", ["formats", "migrate"])
def test_no_module_bears_the_name_of_an_export(package: str) -> None:
    """Importing the submodule would put the module in the place of the function."""
    inside = {path.stem for path in (ROOT / package).iterdir() if path.suffix == ".py" or path.is_dir()}
    assert _exported(package)
    assert inside & _exported(package) == set()


def test_type_checkers_see_every_export_where_it_is_imported_from() -> None:
    imports = [node for node in ast.walk(_tree(Path("migrate/__init__.pyi"))) if isinstance(node, ast.ImportFrom)]
    seen = {alias.asname: str(node.module) for node in imports for alias in node.names if alias.asname is not None}
    assert {*seen} == _exported("migrate")
    for name, module in seen.items():
        assert getattr(migrate, name) is getattr(importlib.import_module(module), name)


def test_every_module_says_what_it_is_for() -> None:
    assert [module for module in MODULES if not ast.get_docstring(_tree(module))] == []


def test_what_is_public_is_explained() -> None:
    unexplained = [
        f"{module}:{node.lineno} {node.name}"
        for module in MODULES
        for node in _tree(module).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
        if not ast.get_docstring(node)
    ]
    assert unexplained == []
