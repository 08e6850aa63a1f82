"""The loop around queries."""

import time
from types import SimpleNamespace

import pytest

from migrate.errors import InvalidStateStoreError, StateStoreMigratedError, StoreNotReadyError, UnknownStateStoreError
from migrate.queries import retries
from migrate.queries.retries import with_retries


class Store:
    """A store that answers after these errors, in calls and in resolving."""

    def __init__(self, *errors: InvalidStateStoreError, resolving: tuple[InvalidStateStoreError, ...] = ()) -> None:
        self.errors, self.resolving = list(errors), list(resolving)
        self.resolved = self.called = 0

    def get(self) -> str:
        self.called += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"

    def resolve(self) -> None:
        self.resolved += 1
        if self.resolving:
            raise self.resolving.pop(0)


MOVED, NOT_READY = StateStoreMigratedError("moved"), StoreNotReadyError("not ready")


def test_a_store_that_was_replaced_is_resolved_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(time, "sleep")
    store = Store(MOVED)
    assert with_retries(store.get, on_migrated=store.resolve) == "answer"
    assert (store.called, store.resolved) == (2, 1)


def test_a_store_that_is_not_ready_is_waited_for() -> None:
    store = Store(NOT_READY, NOT_READY, MOVED, resolving=(NOT_READY, MOVED))
    assert with_retries(store.get, on_migrated=store.resolve) == "answer"
    assert (store.called, store.resolved) == (4, 3)


def test_waits_grow_and_vary(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    store = Store(*[NOT_READY] * 10)
    with_retries(store.get, on_migrated=store.resolve)
    assert all(0.005 * 2**at <= wait <= 0.01 * 2**at for at, wait in enumerate(waits[:6]))
    assert max(waits) <= 1


def test_the_last_error_is_raised_after_the_timeout_and_any_other_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = [0.0]
    monkeypatch.setattr(retries, "time", SimpleNamespace(monotonic=lambda: sum(waits), sleep=waits.append))
    store = Store(*[NOT_READY] * 100)
    with pytest.raises(StoreNotReadyError):
        with_retries(store.get, on_migrated=store.resolve, timeout=0.1)
    assert 2 < store.called < 100
    assert sum(waits) == pytest.approx(0.1)
    unknown = Store(UnknownStateStoreError("unknown"))
    with pytest.raises(UnknownStateStoreError):
        with_retries(unknown.get, on_migrated=unknown.resolve)
    assert unknown.called == 1
