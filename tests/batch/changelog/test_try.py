import pytest

from migrate import run
from tests.batch.changelog.support import *


@pytest.mark.parametrize("way", ["new-topic","append"])
@pytest.mark.parametrize("kind", [TIMESTAMPED, KEY_VALUE, WINDOW])
def test_it(kind, way, broker, tmp_path):
    app = App("app"+kind.split(".")[1]+way, tmp_path, broker, kind, way).make()
    events=[]
    report = run(app.spec, on_event=lambda e: events.append(e.name))
    print(report.changelogs, report.seconds)
    print(events)
    assert app.all_restored()
