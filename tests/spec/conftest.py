"""No test of the Schema Registry asks with credentials of the machine's."""

import pytest

from migrate.spec.registry_http import TOKEN, USER_INFO


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (USER_INFO, TOKEN):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
