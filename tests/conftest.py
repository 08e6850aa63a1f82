"""Settings for every test, commands for those that run them, and the suite that a test belongs to."""

import os
import signal
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from migrate.batch.ledger import table as shared_commits
from migrate.batch.ledger.table import Pace
from migrate.engine import engines
from tests.broker.broker import Broker, require_broker, running_broker
from tests.shared import alternation
from tests.shared.commands import CommandServer, command_server
from tests.suites import group_of, rank_of, suite_of

# Examples open real RocksDB directories, on machines that have other things to do: no example is too slow.
settings.register_profile("storage", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("storage")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

if "PYTEST_XDIST_WORKER" in os.environ:  # its parent has loaded readline, which sets the size of no terminal
    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)


@pytest.fixture(scope="session")
def commands() -> CommandServer:
    """Commands, each in a process of its own."""
    return command_server()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A Kafka broker that all tests share, which therefore name their topics and groups after themselves."""
    require_broker()
    with running_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="module")
def commit_per_chunk() -> Iterator[None]:
    """Chunks share no commit, for tests that stop after a number of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_commits, "PACE", Pace(0.0, 0.0))
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cpu-report", action="store_true", help="list the tests that take most CPU time")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before pytest selects by markers. What takes longest begins first, so that no core is idle at the end."""
    for item in items:
        test = item.nodeid.removeprefix("tests/")
        call = getattr(item, "callspec", None)
        if suite := suite_of(test, call.params.values() if call else ()):
            item.add_marker(suite)
        item.add_marker(pytest.mark.xdist_group(group_of(test)))
    items.sort(key=lambda item: rank_of(item.nodeid.removeprefix("tests/")))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Also for what the test has set up."""
    test = item.nodeid.removeprefix("tests/")
    if test.partition("/")[0] not in alternation.FAMILIES:
        return (yield)
    before = engines.LITTLE_BYTES
    alternation.prefer(alternation.engine_of(test))
    try:
        return (yield)
    finally:
        engines.LITTLE_BYTES = before


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """CPU time, with that of processes that have ended: on a machine with other work the time of day says little."""
    before = sum(os.times()[:4])
    result = yield
    item.user_properties.append(("cpu_seconds", sum(os.times()[:4]) - before))
    return result


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The twenty costliest tests above a second. None fails: CPU time grows on a machine with other work too."""
    if config.getoption("--cpu-report"):
        passed = terminalreporter.stats.get("passed", ())
        spent = {report.nodeid: dict(report.user_properties).get("cpu_seconds", 0.0) for report in passed}
        for test in sorted(spent, key=spent.__getitem__, reverse=True)[:20]:
            if spent[test] > 1:
                terminalreporter.write_line(f"{spent[test]:6.1f} s of CPU time: {test}")
