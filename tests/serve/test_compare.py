"""`/compare` of a service of a migration: old and new records of a key, as JSON and as a page."""

import base64
import html
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from migrate import Spec, cutover, finalize, rollback, run
from migrate.model.display import visible
from migrate.queries.get_report import GetReport
from migrate.queries.queryable_stores import QueryableStores
from migrate.queries.side_by_side import SideBySideStores
from migrate.serve.http_messages import Limits
from migrate.serve.service import openapi
from tests.serve.services import Asked, make_orders, orders_of, serving
from tests.shared.totals import totals_records, totals_spec
from tests.support import KEY_VALUE, TIMESTAMPED, make_spec


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    return totals_spec(tmp_path)


@pytest.fixture
def asked(spec: Spec) -> Iterator[Asked]:
    with serving(QueryableStores.of_migration(spec), sides=SideBySideStores(spec)) as asked:
        yield asked


def test_the_answer_is_what_get_reports_at_each_stage(spec: Spec, asked: Asked) -> None:
    verdicts = []
    for verb in (lambda _: None, run, cutover, rollback, cutover, finalize):
        verb(spec)
        found = asked.found("/compare/orders/key-007")
        assert GetReport.model_validate(found) == SideBySideStores(spec).get("orders", "key-007")
        verdicts.append(found["records"][1]["verdict"])
    assert verdicts == ["not there yet", "equal", "equal", "equal", "equal", "gone"]
    assert found["records"][1]["new"]["value"] == {"price": 7, "count": 2, "total": 14}


def test_a_key_may_be_given_serialized(spec: Spec, asked: Asked) -> None:
    text = base64.urlsafe_b64encode(b"key-007").decode()
    assert asked.found(f"/compare/orders/{text}?encoding=base64") == asked.found("/compare/orders/key-007")


def test_the_answer_has_what_the_document_says(spec: Spec, asked: Asked) -> None:
    run(spec)
    described = openapi()["components"]["schemas"]["Comparison"]["properties"]
    found = asked.found("/compare/orders/key-007")
    assert described.keys() <= found.keys()
    assert described["records"]["items"]["properties"].keys() == found["records"][0].keys()
    assert {each["verdict"] for each in found["records"]} == {"nowhere", "equal"}


@pytest.mark.parametrize(
    "path, status, sentence",
    [
        ("/compare/nothing/key-007", 404, "the spec has no store 'nothing'"),
        ("/compare/orders/key-007?window=7", 400, "a store of kafka-streams.key-value has no windows"),
        ("/compare/orders/key-007?window=x", 400, "the window 'x' is not START or START,END"),
        ("/compare/orders/%?encoding=base64", 400, "'%' is not a key of this store: not base64"),
        ("/compare/orders/a?encoding=utf", 400, "encoding='utf' is not known"),
        ("/compare/orders/a?encoding=hex", 400, "'a' is not a key of this store: not hex digits"),
        ("/compare/orders/a?stale=true", 400, "there is no parameter 'stale' here"),
        ("/compare/orders/%ff", 400, "the path is not UTF-8 text"),
        ("/compare/orders", 404, "there is no '/compare/orders' here"),
    ],
)
def test_mistakes_have_a_status_and_a_sentence(asked: Asked, path: str, status: int, sentence: str) -> None:
    assert asked.problem(path, status).startswith(sentence)


def test_the_page_shows_a_key_or_the_records_from_it_on(spec: Spec, asked: Asked) -> None:
    run(spec)
    form = asked.get("/compare")
    assert (form.status_code, form.text.count("<form"), form.text.count('class="record"')) == (200, 1, 25)
    one = asked.get("/compare?key=key-007").text
    assert one.count('class="record"') == 1
    assert "14" in one
    some = asked.get("/compare?key=key-050&from=here").text
    assert some.count('class="record"') == 25
    assert "25 records: 25 equal; there are more." in some
    assert asked.get("/compare?key=&from=here").text.count('class="record"') == 25
    assert "Neither store has such a record" in asked.get("/compare?key=none").text


@pytest.mark.parametrize("start", ["", "?key=key-010&from=here"])
def test_the_pages_that_follow_have_each_record_once(spec: Spec, asked: Asked, start: str) -> None:
    """Of one store partition after the other, each from the same key on."""
    run(spec)
    key = start[5:12].encode()
    expected = [each.decode() for number in (0, 1) for each in sorted(totals_records(number)) if each >= key]
    headings: list[str] = []
    query: str | None = start
    while query is not None:
        page = asked.get(f"/compare{query}").text
        headings += re.findall(r"<h2><bdi>&#34;(.*)&#34;</bdi>", page)
        link = re.search(r'<a href="(\?[^"]*)">Next records</a>', page)
        query = None if link is None else html.unescape(link[1])
    assert headings == expected
    assert len(headings) > 75


def test_a_place_that_is_none_is_refused(asked: Asked) -> None:
    for at in ("0_7/orders:00", "0_0/orders:0", "x"):
        assert asked.get(f"/compare?from=here&at={quote(at)}").status_code == 400


@pytest.mark.parametrize(
    ("serde", "hint"),
    [
        ({"serde": "boolean"}, "true or false"),
        ({"serde": "float"}, "a number"),
        ({"serde": "string"}, "text"),
        ({"serde": "list", "inner": "int16"}, "JSON"),
    ],
)
def test_the_form_says_what_a_key_is(tmp_path: Path, serde: dict[str, str], hint: str) -> None:
    spec = make_spec(
        tmp_path,
        make_orders(tmp_path / "app", 1),
        source_format=KEY_VALUE,
        target_format=TIMESTAMPED,
        source={"store": "orders"},
        conversion={"key": {"from": serde, "to": serde}},
    )
    with serving(QueryableStores.of_migration(spec), sides=SideBySideStores(spec)) as asked:
        assert f'placeholder="{hint}"' in asked.get("/compare").text


def test_the_first_page_leads_to_the_records(asked: Asked) -> None:
    assert (asked.get("/").status_code, asked.get("/").headers["location"]) == (307, "compare")
    assert asked.client.get(asked.url, follow_redirects=True).text.count('class="record"') == 25


@pytest.mark.parametrize(
    "query, status, sentence",
    [
        ("key=", 400, "there is no key in the form"),
        ("key=a&window=x", 400, "the window &#39;x&#39; is not START or START,END"),
        ("key=a&store=nothing", 404, "the spec has no store &#39;nothing&#39;"),
        ("key=a&other=1", 400, "there is no parameter &#39;other&#39; here"),
        ("key=%ff", 400, "the parameters cannot be read"),
    ],
)
def test_a_mistake_is_a_sentence_on_the_page(asked: Asked, query: str, status: int, sentence: str) -> None:
    answer = asked.get(f"/compare?{query}")
    assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert sentence in answer.text
    assert "<form" in answer.text


def test_the_page_allows_no_script_and_no_frame(asked: Asked) -> None:
    policy = asked.get("/compare").headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline';")
    assert "frame-ancestors 'none'" in policy
    assert "script" not in policy


def test_a_service_of_a_directory_has_nothing_to_compare(tmp_path: Path) -> None:
    with serving(orders_of(make_orders(tmp_path / "app"))) as asked:
        for path in ("/compare", "/compare/orders/order-007"):
            assert asked.problem(path, 404).startswith("there is no migration to compare")
        assert asked.get("/").headers["location"] == "docs"


class _Slow(SideBySideStores):
    """Its answers take as long as the test wants."""

    asked = threading.Event()
    end = threading.Event()

    def first(self, *asked: Any, **more: Any) -> GetReport:  # noqa: ANN401
        self.asked.set()
        assert self.end.wait(60)
        return super().first(*asked, **more)


def test_comparing_counts_as_a_scan_and_point_queries_go_on(spec: Spec) -> None:
    sides = _Slow(spec)
    with (
        serving(QueryableStores.of_migration(spec), sides=sides, limits=Limits(scans=1)) as asked,
        ThreadPoolExecutor(1) as pool,
    ):
        asked.found("/stores/orders/keys/key-007")
        slow = pool.submit(httpx.get, f"{asked.url}/compare?key=&from=here", timeout=30)
        assert sides.asked.wait(60)
        assert asked.found("/stores/orders/keys/key-007")["key"] == "key-007"
        assert "scans are being read" in asked.problem("/compare/orders/key-007", 503)
        page = asked.get("/compare?key=key-007")
        assert (page.status_code, page.headers["retry-after"]) == (503, "1")
        assert "retry with backoff" in page.text
        sides.end.set()
        assert slow.result().text.count('class="record"') == 25


def test_a_browser_gets_in_with_the_token_as_password(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATEFERRY_TOKEN", "a:secret")
    with serving(QueryableStores.of_migration(spec), sides=SideBySideStores(spec)) as asked:
        refused = asked.get("/compare")
        assert refused.status_code == 401
        assert refused.headers.get_list("www-authenticate") == ["Bearer", 'Basic realm="stateferry"']
        for user in ("", "anyone", "\xe9"):
            shown = base64.b64encode(f"{user}:a:secret".encode()).decode()
            assert asked.get("/compare", authorization=f"Basic {shown}").status_code == 200
            assert asked.get("/stores", authorization=f"basic {shown}").status_code == 200
        for wrong in ("anyone:a:secre", "a:secret", ":", ":a:secret2", "a:secret:"):
            shown = base64.b64encode(wrong.encode()).decode()
            assert asked.get("/compare", authorization=f"Basic {shown}").status_code == 401
        for damaged in ("Basic", "Basic %%%", "Basic a:secret", "Basic YW55b25lOmE6c2VjcmV0 x"):
            assert asked.get("/compare", authorization=damaged).status_code == 401


@pytest.mark.parametrize(
    "key", ["<script>alert(1)</script>", '"><img src=x>', "\u202egnp.exe", "\x00\x1b[31m", "{{ 7 * 7 }}", "a/b?c#d&e"]
)
def test_a_hostile_key_is_text(asked: Asked, key: str) -> None:
    page = asked.get(f"/compare?key={quote(key, safe='')}").text
    assert "<script" not in page
    assert "<img" not in page
    assert "49" not in page.partition("</style>")[2]
    assert visible("\x1b") not in page or "\x1b" in key
    report = asked.found(f"/compare/orders/{quote(key, safe='')}")
    assert {each["verdict"] for each in report["records"]} == {"nowhere"}
