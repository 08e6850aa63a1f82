"""In a real browser: nothing runs, nothing is asked for, nothing overflows, and everything can be read."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from migrate.model.display import visible
from migrate.show.page.dry_run_page import dry_run_page
from migrate.show.page.run_page import run_page
from migrate.spec.spec import parse_spec
from tests.dry_run.support import planned
from tests.show.page.chromium import Chromium, chromium
from tests.show.page.histories import empty_history, good_history, ugly_history
from tests.show.page.hostile import HOSTILE, ugly_report
from tests.show.page.samples import good_report, refused_report
from tests.support import KEY_VALUE, TIMESTAMPED, make_store

PHONE, DESK = 390, 1280

# How many texts there are, what is folded away too, and which are too faint against what is behind them.
FAINT = """
(() => {
  const parse = (colour) => (colour.match(/[\\d.]+/g) || []).map(Number);
  const light = (c) => { c /= 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
  const luminance = ([r, g, b]) => 0.2126 * light(r) + 0.7152 * light(g) + 0.0722 * light(b);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  let checked = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.getClientRects().length) continue;
    checked += 1;
    const style = getComputedStyle(element);
    const ink = parse(element.closest('svg') ? style.fill : style.color);
    const [a, b] = [luminance(ink), luminance(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.push([walker.currentNode.data.slice(0, 40), ratio]);
  }
  return [checked, found.slice(0, 5)];
})()
"""

# Tables that are wider than their boxes, folded ones too.
CUT_OFF = """
(() => {
  document.querySelectorAll('details').forEach(e => { e.open = true; });
  const wide = [...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth + 1);
  document.querySelectorAll('details').forEach(e => { e.open = false; });
  return wide.map(e => e.getAttribute('aria-label'));
})()
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """One for all tests: it takes seconds to start."""
    with chromium(tmp_path_factory.mktemp("chromium") / "profile") as started:
        yield started


def _real_report(folder: Path) -> str:
    """Of a store whose keys and values are hostile."""
    texts = [text.encode("utf-8", "surrogatepass") for text in HOSTILE]
    for task in range(2):
        records = {b"%d %s" % (number, texts[0]): texts[number % len(texts)] for number in range(500)}
        make_store(folder / f"state/app/0_{task}/rocksdb/orders", records)
    content = {
        "name": "orders",
        "work_dir": str(folder / "work"),
        "source": {"format": KEY_VALUE, "path": str(folder / "state/app"), "store": "orders"},
        "target": {"format": TIMESTAMPED},
    }
    report = planned(parse_spec(content, base_dir=folder))
    assert report.tried.converted == 1000
    assert all(HOSTILE[0] in example.key.text for example in report.tried.examples)
    return dry_run_page(report)


PAGES: dict[str, Callable[[Path], str]] = {
    "dry-good": lambda _: dry_run_page(good_report()),
    "dry-ugly": lambda _: dry_run_page(ugly_report()),
    "dry-refused": lambda _: dry_run_page(refused_report()),
    "dry-real": _real_report,
    "run-good": lambda _: run_page(good_history()),
    "run-ugly": lambda _: run_page(ugly_history()),
    "run-empty": lambda _: run_page(empty_history()),
}


@pytest.fixture(scope="module", params=PAGES)
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each page, as a file."""
    folder = tmp_path_factory.mktemp(request.param)
    path = folder / "page.html"
    path.write_text(PAGES[request.param](folder), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_page_runs_nothing_asks_for_nothing_and_can_be_read(
    browser: Chromium, page: Path, *, width: int, dark: bool
) -> None:
    browser.open(page, width=width, dark=dark)
    assert browser.complaints == []
    assert browser.requests == [page.as_uri()]
    assert browser.evaluate("document.documentElement.scrollWidth") == width
    selected = "[...new Set([...document.querySelectorAll('.command')].map(e => getComputedStyle(e).userSelect))]"
    assert browser.evaluate(selected) in ([], ["all"])
    if width == DESK and "ugly" not in str(page):
        assert browser.evaluate(CUT_OFF) == []
    checked, faint = browser.evaluate(FAINT)
    assert checked > 30
    assert faint == []
    background = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall("[0-9]+", background))) < 200) == dark


def test_hostile_content_is_text_and_nothing_more(browser: Chromium, page: Path) -> None:
    browser.open(page)
    assert "taken over" not in browser.evaluate("document.title").replace(visible(HOSTILE[0]), "")
    assert browser.evaluate("document.querySelectorAll('script, img, iframe, [onerror], [onload]').length") == 0
    assert browser.evaluate("document.querySelectorAll('style').length") == 1
    assert browser.evaluate("getComputedStyle(document.body).display") == "block"


def test_a_script_in_a_key_is_shown(browser: Chromium, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(dry_run_page(ugly_report()), encoding="utf-8")
    browser.open(path)
    assert browser.evaluate("document.querySelector('h1').textContent") == HOSTILE[0]
    assert browser.evaluate("document.title").startswith(HOSTILE[0])
    assert browser.evaluate("document.body.innerText").count(HOSTILE[0]) > 20


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_two_thousand_chunks_and_sixty_four_store_partitions_can_be_pointed_at(
    browser: Chromium, tmp_path: Path, *, width: int
) -> None:
    path = tmp_path / "page.html"
    path.write_text(run_page(ugly_history()), encoding="utf-8")
    browser.open(path, width=width)
    widths = browser.evaluate("[...document.querySelectorAll('.map i')].map(e => e.getBoundingClientRect().width)")
    assert len(widths) > 2000
    assert min(widths) > 1.2
    tall = browser.evaluate("Math.max(...[...document.querySelectorAll('.map')].map(e => e.offsetHeight))")
    assert tall < 900


def test_on_paper_nothing_is_folded_away(browser: Chromium, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(dry_run_page(good_report()), encoding="utf-8")
    browser.open(path)
    shown = "[...document.querySelectorAll('details table')].filter(e => e.checkVisibility()).length"
    assert browser.evaluate(shown) == 0
    browser.use_paper()
    assert browser.evaluate(shown) == browser.evaluate("document.querySelectorAll('details table').length") > 0


@pytest.mark.parametrize(
    "body",
    [
        "<script>document.title = 'taken over'</script>",
        "<img src=x onerror=\"document.title='taken over'\">",
        "<link rel=stylesheet href='http://127.0.0.1:9/style.css'>",
    ],
)
def test_what_these_tests_look_for_is_seen_where_it_is(browser: Chromium, tmp_path: Path, body: str) -> None:
    """The policy of the page stops it, and the browser says so."""
    written = dry_run_page(good_report())
    path = tmp_path / "page.html"
    path.write_text(
        written.replace("<main>", f"<main>{body}<p style='width: 3000px; color: #777'>wide</p>"), encoding="utf-8"
    )
    browser.open(path, width=PHONE)
    assert browser.complaints != []
    assert browser.evaluate("document.title") != "taken over"
    assert browser.evaluate("document.documentElement.scrollWidth") > PHONE
    assert browser.evaluate(FAINT)[1] != []


def test_without_the_policy_a_script_would_be_seen_to_run(browser: Chromium, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("<!DOCTYPE html><script>document.title = 'taken over'; console.warn(1)</script>", encoding="utf-8")
    browser.open(path)
    assert browser.evaluate("document.title") == "taken over"
    assert [event["method"] for event in browser.complaints] == ["Runtime.consoleAPICalled"]
