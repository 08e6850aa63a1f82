"""Each refusal of a switch has a next step, moves no store, and leaves the ledger as it was."""

import re

import pytest

from migrate.errors import MigrationError
from migrate.model.ledger_row import Row
from migrate.spec.spec import Spec
from tests.batch.switch.conftest import _from_snapshot, _lone, _verified, app, folder, fresh, later, lone, memory
from tests.batch.switch.support import Application
from tests.situations.switches import REFUSALS, Refusal
from tests.support import read_ledger, tree_state

__all__ = ["_from_snapshot", "_lone", "_verified", "app", "folder", "fresh", "later", "lone", "memory"]


def ledger(spec: Spec) -> list[Row] | None:
    """The ledger's rows; None if the migration has no folder."""
    return read_ledger(spec.home) if spec.home.exists() else None


@pytest.mark.parametrize("refusal", REFUSALS, ids=[refusal.name for refusal in REFUSALS])
def test_nothing_moves(refusal: Refusal, request: pytest.FixtureRequest) -> None:
    found = request.getfixturevalue(refusal.base)
    application = Application(found.base_dir, found.source_path, found) if isinstance(found, Spec) else found
    refusal.do(application)
    spec = application.spec if refusal.spec is None else refusal.spec(application)
    before, rows = tree_state(application.path), ledger(spec)
    with refusal.around(application) as holder:
        for verb in refusal.verbs:
            with pytest.raises(MigrationError) as caught:
                verb(spec)
            error = caught.value
            assert error.exit_code == refusal.code, error
            assert re.search(refusal.said, error.message), error
            assert not isinstance(holder, int) or f"is held by process {holder}" in error.message
            assert error.hint
            assert refusal.hint in error.hint
    assert tree_state(application.path) == before
    assert ledger(spec) == rows
    refusal.then(application)
