"""The page `/compare` of a real migration in a real browser, on a phone and on a desk."""

import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from migrate import cutover, run
from migrate.queries.queryable_stores import QueryableStores
from migrate.queries.side_by_side import SideBySideStores
from tests.serve.services import serving
from tests.shared.totals import totals_spec
from tests.show.page.chromium import Chromium, chromium
from tests.show.page.hostile import HOSTILE
from tests.show.page.test_chromium import DESK, FAINT, PHONE
from tests.support import UNKNOWN_TIMESTAMP, open_store

LONG = "k" * 3000
_FIELDS = {"price": 1, "count": 1}
_KEYS = [text for text in HOSTILE if text.isprintable()]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with chromium(tmp_path_factory.mktemp("chromium") / "profile") as started:
        yield started


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a migration that is cut over, with keys and values that are hostile or long, and a record that differs."""
    more = {
        key.encode(): json.dumps({**_FIELDS, **{text: text for text in HOSTILE}, "many": dict.fromkeys(HOSTILE, 7)})
        .replace("\\ud83d", "?")
        .encode()
        for key in _KEYS
    }
    more[LONG.encode()] = json.dumps({**_FIELDS, "text": "v" * 1_000_000, "many": list(range(9000))}).encode()
    spec = totals_spec(tmp_path_factory.mktemp("page"), more)
    run(spec)
    cutover(spec)
    with open_store(spec.source_path / "0_1/rocksdb/orders") as database:
        column = database.get_column_family("keyValueWithTimestamp")
        column[b"key-007"] = UNKNOWN_TIMESTAMP + b'{"price":7,"count":2,"total":15}'
        del column
    with serving(QueryableStores.of_migration(spec), sides=SideBySideStores(spec)) as asked:
        yield f"{asked.url}/compare"


def _is_whole(browser: Chromium, address: str, width: int) -> None:
    assert browser.complaints == []
    assert browser.requests == [address]
    assert browser.evaluate("document.documentElement.scrollWidth") == width
    assert (
        browser.evaluate("[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth)") == []
    )
    assert browser.evaluate("document.querySelectorAll('script, img, iframe, link, [onerror], [onload]').length") == 0
    assert browser.evaluate(FAINT)[1] == []


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("query", ["", "?key=key-007", "?key=none", "?key=&from=here", f"?key={LONG}"])
def test_the_page_is_whole_and_can_be_read(browser: Chromium, url: str, query: str, *, width: int, dark: bool) -> None:
    browser.open(url + query, width=width, dark=dark)
    _is_whole(browser, url + query, width)
    assert browser.evaluate("document.documentElement.innerHTML.length") < 200_000


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_hostile_keys_and_values_are_text(browser: Chromium, url: str, width: int) -> None:
    assert len(_KEYS) > 5
    for key in _KEYS:
        address = f"{url}?key={quote(key, safe='')}"
        browser.open(address, width=width)
        _is_whole(browser, address, width)
        assert browser.evaluate("document.title") == "orders: old and new"
        assert browser.evaluate("document.querySelectorAll('style').length") == 1
        assert browser.evaluate("document.querySelector('input').value") == key
        assert browser.evaluate("document.querySelectorAll('.record').length") == 1
        assert browser.evaluate("getComputedStyle(document.body).display") == "block"


def test_a_person_asks_with_the_form(browser: Chromium, url: str) -> None:
    """Without a script of the page: the browser sends the form itself."""
    browser.open(url)
    assert browser.evaluate("document.activeElement.name") == "key"
    for button, count in ((0, 1), (1, 25)):
        browser.evaluate("document.querySelector('input').value = 'key-006'")
        browser.leave(f"document.querySelectorAll('button')[{button}].click()")
        assert browser.evaluate("document.querySelectorAll('.record').length") == count
        assert browser.evaluate("document.querySelector('h2 bdi').textContent") == '"key-006"'
        assert browser.evaluate("document.querySelector('input').value") == "key-006"
    assert browser.evaluate("document.querySelector('main').textContent").count("25 records: 25 equal") == 1


def test_what_differs_is_marked(browser: Chromium, url: str) -> None:
    browser.open(f"{url}?key=key-007", width=PHONE)
    rows = browser.evaluate("[...document.querySelectorAll('tr.differs')].map(e => e.innerText.split(/\\s+/))")
    assert rows == [["value.total", "differs", "14", "15"]]
    assert browser.evaluate("document.querySelector('h2 .badge').textContent") == "different"
    shown = "[...document.querySelectorAll('thead th')].filter(e => e.checkVisibility()).map(e => e.textContent)"
    assert browser.evaluate(shown) == ["old", "converted", "new"]
