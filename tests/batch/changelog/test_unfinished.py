"""Reports of a migration whose changelogs are not written to their end: nothing claims more, and `next` goes on."""

from pathlib import Path

import pytest

from migrate import RefusedError, Spec, catch_up, cutover, report, run, status, verify
from migrate.batch.ledger.gates import not_accepted
from migrate.batch.status.status import Watch
from migrate.show.page.run_page import run_page
from tests.batch.changelog.support import TASKS, App, tail_of
from tests.batch.switch.support import StopAt, StoppedError
from tests.broker.broker import Broker
from tests.support import raises

_CLAIM = "a restore from it gives the same store"
_APPENDED = "a restore gives the new store's records"


@pytest.mark.parametrize(
    ("way", "event", "said"),
    [
        ("new-topic", "verify.committed", "the changelogs of the new stores are not written"),
        ("new-topic", "changelog.opened", "is not written"),
        ("append", "changelog.opened", "is not written"),
    ],
)
def test_every_report_says_what_is_left_of_the_changelogs(
    way: str, event: str, said: str, broker: Broker, tmp_path: Path
) -> None:
    app = App(f"unfinished-{way}-{event.replace('.', '-')}", tmp_path, broker, way=way, count=40).make()
    raises(StoppedError, "", run, app.spec, on_event=StopAt(event))
    _check_said(app.spec, said, "stateferry run SPEC")
    raises(RefusedError, said, cutover, app.spec)
    assert "stateferry run SPEC" in verify(app.spec).next_step
    run(app.spec)
    assert app.all_restored()
    history = report(app.spec)
    assert (_CLAIM if way == "new-topic" else _APPENDED) in history.changelog
    assert not_accepted(history.concerns) == ()
    assert "stateferry cutover SPEC" in status(app.spec).next_step
    assert Watch(app.spec).poll().is_over
    assert "held back" not in run_page(history)


def test_a_tail_that_the_new_changelog_lacks_is_said_and_keeps_the_stores_from_going_live(
    broker: Broker, tmp_path: Path
) -> None:
    app = App("unfinished-tail", tmp_path, broker, count=40).make()
    run(app.spec)
    app.write(app.topic, 0, tail_of(app, 0))
    raises(StoppedError, "", catch_up, app.spec, on_event=StopAt("verify.committed"))
    said = f"the new changelog of {TASKS[0]}/orders lacks what a catch-up has brought"
    _check_said(app.spec, said, "stateferry catch-up SPEC")
    raises(RefusedError, said, cutover, app.spec)
    catch_up(app.spec)
    assert not_accepted(status(app.spec).concerns) == ()
    cutover(app.spec)


def _check_said(spec: Spec, said: str, following: str) -> None:
    history, seen = report(spec), Watch(spec).poll()
    for each in (status(spec), history, seen):
        (concern,) = not_accepted(each.concerns)
        assert said in concern.sentence
        assert following in each.next_step
    assert not (seen.is_over and "is not written" in said)
    assert said in history.changelog
    assert _CLAIM not in history.changelog
    page = run_page(history)
    assert said in page
    assert "held back" in page
