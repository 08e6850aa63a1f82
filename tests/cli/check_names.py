"""Every check that the code names, read from the code: some appear in a report only where they fail."""

import ast
from collections.abc import Iterator
from pathlib import Path

from migrate.batch.preflight.check import SPARK_CHECKS

PACKAGE = Path(__file__).parents[2] / "migrate"


def all_checks() -> list[tuple[str, str]]:
    """(name, claim), without repetitions: those of the ground first, those of Spark last."""
    modules = sorted(PACKAGE.rglob("*.py"), key=lambda module: (module.name != "ground.py", module))
    found = {name: claim for module in modules for name, claim in _named_in(module)}
    return [*(found | SPARK_CHECKS).items()]


def _named_in(module: Path) -> Iterator[tuple[str, str]]:
    for function in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(function, ast.FunctionDef):
            variables = dict(_variables(function))
            for node in ast.walk(function):
                values = _name_and_claim(node)
                if len(values) == 2:
                    names, claims = (_texts(value, variables) for value in values)
                    yield from ((name, claim) for name in names for claim in claims)


def _name_and_claim(node: ast.AST) -> list[ast.expr]:
    """Of `Check(name, claim)`, `failed(name, claim, error)`, `CheckReport(name=, claim=)`, `name, claim = `.

    And of the rows (name, claim, lambda, needs) of the checks at the broker.
    """
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id in ("Check", "failed"):
            return node.args[:2]
        if node.func.id == "CheckReport":
            return [keyword.value for keyword in node.keywords if keyword.arg in ("name", "claim")]
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "(name, claim)":
        return node.value.elts if isinstance(node.value, ast.Tuple) else []
    match node:
        case ast.Tuple(elts=[ast.Constant(value=str(name)), claim, ast.Lambda(), _]):
            return [ast.Constant(f"changelog.{name}"), claim]
    return []


def _variables(function: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value


def _texts(node: ast.expr, variables: dict[str, ast.expr]) -> list[str]:
    """What it may be, as far as it is written there."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    if isinstance(node, ast.IfExp):
        return _texts(node.body, variables) + _texts(node.orelse, variables)
    if isinstance(node, ast.Name) and node.id in variables:
        return _texts(variables[node.id], {})
    return []
