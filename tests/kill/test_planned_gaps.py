"""A run that was killed, and whose stored plan has a gap by then: it goes on with none of it."""

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from migrate.model.plan import newest_plan
from tests.kill.checks import CheckFailedError, Checks
from tests.kill.migrations import Migration
from tests.kill.peace import make_templates
from tests.kill.plans import Kill
from tests.kill.scenarios import RAW_STORE, WINDOWS, Kind, Scenario
from tests.kill.zygote import Zygote
from tests.support import raises

SEAL = ',\n "digest":"'


def _lose_a_chunk(plan: dict[str, Any]) -> None:
    del plan["chunks"][1]


def _shorten_a_chunk(plan: dict[str, Any]) -> None:
    """By the flip of one bit."""
    keys = next(chunk["keys"] for chunk in plan["chunks"] if chunk["keys"]["end"])
    keys["end"] = keys["end"][:-1] + "%x" % (int(keys["end"][-1], 16) ^ 1)


def _changed(content: str, change: Callable[[dict[str, Any]], None]) -> str:
    """A plan that was stored like this, with its digest."""
    plan = json.loads(content[: content.rindex(SEAL)] + "\n}")
    change(plan)
    text = json.dumps(plan, indent=1)
    return text.removesuffix("\n}") + f'{SEAL}{sha256(text.encode()).hexdigest()}"\n}}'


@pytest.mark.parametrize("change", [_lose_a_chunk, _shorten_a_chunk])
@pytest.mark.parametrize("kind", [RAW_STORE, WINDOWS], ids=lambda kind: kind.name)
def test_a_planned_gap_is_refused_by_the_resume(
    kind: Kind, change: Callable[[dict[str, Any]], None], tmp_path: Path
) -> None:
    scenario = Scenario(kind, ("run",), publishes=True)
    template = make_templates(tmp_path / "templates", [scenario])[kind]
    with Zygote() as zygote:
        migration = Migration(scenario, template, tmp_path / "killed", zygote)
        checks = Checks(scenario, migration.base, look_for_leftovers=False)
        assert migration.be_killed(Kill("run", "chunk.committed")).killed
        file = newest_plan(checks.home)
        assert file is not None
        content = file.read_text(encoding="utf-8")
        file.write_text(_changed(content, change), encoding="utf-8")
        raises(CheckFailedError, r"ended with 6:(.|\n)* is damaged: the chunks of .*", migration.perform, "run")
        checks.after_refusal("run")
        file.write_text(content, encoding="utf-8")
        migration.perform("run")
        checks.after_end("run")
