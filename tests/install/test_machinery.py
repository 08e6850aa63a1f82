"""The forge's workflow, the hooks and the metadata name what exists."""

import re
import tomllib
from pathlib import Path

import pytest

from migrate.errors import explain_system_error

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
TOOLS = {"git", "python", "stateferry", *(f".venv/bin/{re.split('[=<>]', each)[0]}" for each in EXTRAS["dev"])}


@pytest.mark.parametrize("file", [".github/workflows/ci.yml", ".pre-commit-config.yaml"])
def test_every_command_exists(file: str) -> None:
    commands = re.findall(
        r"^\s*(?:- )?(?:run|entry|command): ([^$\n]+)$", (ROOT / file).read_text(), flags=re.MULTILINE
    )
    assert len(commands) >= 3
    assert [command for command in commands if not _exists(command)] == []


def _exists(command: str) -> bool:
    program, *arguments = command.split()
    if program == "make":
        return set(arguments) <= TARGETS
    return program in TOOLS or (ROOT / program).is_file()


def test_the_forge_runs_the_oldest_and_the_newest_python() -> None:
    tested = re.findall(r'- python: "([\d.]+)"', (ROOT / ".github/workflows/ci.yml").read_text())
    named = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)]
    assert tested == [named[0], named[-1]]
    assert PROJECT["requires-python"] == f">={named[0]}"


def test_every_extra_that_a_message_or_a_page_names_exists() -> None:
    files = [path for each in ("*.md", "docs/*.md", "migrate/**/*.py", "jobs/*.py") for path in ROOT.glob(each)]
    named = {name for path in files for name in re.findall(r"(?:stateferry|\.)\[([a-z,]+)\]", path.read_text())}
    assert "batch" in named
    assert {extra for name in named for extra in name.split(",")} <= EXTRAS.keys()


def test_a_message_names_the_extra_of_each_package() -> None:
    own = {"all": "its parts", "dev": "of no user", "java": "no module of ours", "delta-spark": "read by users alone"}
    own["jinja2"] = "of two extras"
    modules = {"faust-streaming": "faust"}
    for extra in EXTRAS.keys() - own.keys():
        for package in {re.split(r"[\[=<>]", each)[0] for each in EXTRAS[extra]} - {"stateferry", *own}:
            error = explain_system_error(ModuleNotFoundError(name=modules.get(package, package.replace("-", "_"))))
            assert error is not None and error.hint.startswith(f"pip install 'stateferry[{extra}]'")
