"""PageCursors: none leads anywhere but where it was made."""

import base64

import pytest

from migrate.serve.http_messages import Problem
from migrate.serve.serve_context import PageCursors

PLACE = ["", 1, "YQ=="]


def test_a_cursor_leads_back_to_its_place() -> None:
    cursors = PageCursors()
    assert cursors.unseal(cursors.seal("orders", "3", PLACE), "orders", "3") == PLACE


def test_a_cursor_of_a_replaced_store_is_a_conflict() -> None:
    cursors = PageCursors()
    with pytest.raises(Problem, match="replaced since") as caught:
        cursors.unseal(cursors.seal("orders", "3", PLACE), "orders", "4")
    assert caught.value.status == 409


@pytest.mark.parametrize("spoilt", ["", "a", "é", "=", "AAAA" * 20, "nobody's"])
def test_a_text_that_is_no_cursor_is_refused(spoilt: str) -> None:
    _refused(PageCursors(), spoilt)


def test_a_cursor_of_another_store_or_process_is_refused() -> None:
    _refused(PageCursors(), PageCursors().seal("orders", "0", PLACE))
    cursors = PageCursors()
    _refused(cursors, cursors.seal("customers", "0", PLACE))


def test_each_bit_of_a_cursor_counts() -> None:
    cursors = PageCursors()
    sealed = base64.urlsafe_b64decode(cursors.seal("orders", "0", "abc") + "==")
    for bit in range(len(sealed) * 8):
        changed = bytearray(sealed)
        changed[bit // 8] ^= 1 << bit % 8
        _refused(cursors, base64.urlsafe_b64encode(changed).decode())


def _refused(cursors: PageCursors, cursor: str) -> None:
    with pytest.raises(Problem, match="does not belong to this query") as caught:
        cursors.unseal(cursor, "orders", "0")
    assert caught.value.status == 400
