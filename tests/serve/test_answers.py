"""What each endpoint answers."""

import json
import re
from collections.abc import Iterator
from typing import get_args

import pytest

from migrate.model.packages import VERSION
from migrate.queries.get_report import Verdict
from migrate.queries.json_values import ENCODINGS
from migrate.serve.service import ENDPOINTS, openapi
from tests.serve.services import ORDERS, TIMES, Asked, make_orders, make_timed_orders, orders_of, serving
from tests.support import TIMESTAMPED


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """Two partitions of a key-value store."""
    with serving(orders_of(make_orders(tmp_path_factory.mktemp("orders") / "app"))) as asked:
        yield asked


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    with serving(orders_of(make_timed_orders(tmp_path_factory.mktemp("timed") / "app"), TIMESTAMPED)) as asked:
        yield asked


def test_each_key_has_its_record(orders: Asked) -> None:
    found = {key: orders.found(f"/stores/orders/keys/{key}") for key in ORDERS}
    assert found == {key: {"key": key, "value": value} for key, value in ORDERS.items()}


def test_a_record_has_its_timestamp(timed: Asked) -> None:
    assert timed.found("/stores/orders/keys/order-007") == {
        "key": "order-007",
        "value": ORDERS["order-007"],
        "timestamp": TIMES["order-007"],
    }


def test_a_key_may_be_given_serialized(orders: Asked) -> None:
    assert orders.found("/stores/orders/keys/b3JkZXItMDA3?encoding=base64")["key"] == "order-007"


def test_an_answer_that_is_known_is_not_sent_again(orders: Asked) -> None:
    first = orders.get("/stores/orders/keys/order-007")
    etag = first.headers["etag"]
    for condition in (etag, f'W/{etag}, "other"', f'"other", {etag}'):
        again = orders.get("/stores/orders/keys/order-007", if_none_match=condition)
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    assert orders.get("/stores/orders/keys/order-007", if_none_match='"other"').content == first.content


def test_head_has_no_body(orders: Asked) -> None:
    for path in ("/stores/orders/keys/order-007", "/stores/orders/all", "/stores"):
        answer = orders.client.head(orders.url + path)
        assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize("limit", [1, 7, 150, 300, 1000])
@pytest.mark.parametrize("reverse", [False, True])
def test_pages_hold_each_record_once_and_in_order(orders: Asked, limit: int, *, reverse: bool) -> None:
    keys, cursor = [], ""
    while True:
        query = f"limit={limit}&reverse={str(reverse).lower()}" + (f"&cursor={cursor}" if cursor else "")
        page = orders.found(f"/stores/orders/range?{query}")
        assert len(page["records"]) <= limit
        keys += [record["key"] for record in page["records"]]
        if (cursor := page["cursor"]) is None:
            break
    even, odd = sorted(ORDERS)[::2], sorted(ORDERS)[1::2]
    assert keys == (even[::-1] + odd[::-1] if reverse else even + odd)


def test_a_range_includes_both_ends(timed: Asked) -> None:
    page = timed.found("/stores/orders/range?from=order-010&to=order-012")
    assert [(each["key"], each["timestamp"]) for each in page["records"]] == [
        (key, TIMES[key]) for key in ("order-010", "order-011", "order-012")
    ]
    assert page["cursor"] is None


def test_all_ends_with_the_number_of_records(orders: Asked) -> None:
    answer = orders.get("/stores/orders/all")
    *records, end = map(json.loads, answer.text.splitlines())
    assert {each["key"]: each["value"] for each in records} == ORDERS
    assert end == {"end": True, "records": len(ORDERS)}
    assert answer.headers["content-type"] == "application/x-ndjson"


def test_the_stores_and_their_partitions_are_described(orders: Asked) -> None:
    named = {"name": "orders", "format": "kafka-streams.key-value", "kind": "key-value"}
    assert orders.found("/stores") == {"stores": [{**named, "key": "string", "value": "string"}]}
    described = orders.found("/stores/orders")
    assert [(each["id"], each["partition"]) for each in described["partitions"]] == [
        ("0_0/orders", 0),
        ("0_1/orders", 1),
    ]
    assert sum(each["estimated_records"] for each in described["partitions"]) == len(ORDERS)


def test_metrics_count_answers_by_status(orders: Asked) -> None:
    before = orders.metric('requests_total{endpoint="keys",status="404"}')
    orders.get("/stores/orders/keys/none")
    assert orders.metric('requests_total{endpoint="keys",status="404"}') == before + 1
    assert orders.metric('seconds_count{endpoint="keys"}') > before


def test_what_can_be_asked_is_described_without_scripts(orders: Asked) -> None:
    assert orders.found("/openapi.json") == openapi()
    page = orders.get("/docs")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "<script" not in page.text
    assert [f"GET {path}" in page.text for path in openapi()["paths"]].count(False) == 0


def test_the_document_has_each_path_with_its_parameters(orders: Asked) -> None:
    """All but the pages for people and the document itself."""
    pages = {"/", "/compare", "/docs", "/openapi.json"}
    described = openapi()["paths"]
    assert described.keys() == {path.replace(":rest", "") for path in ENDPOINTS} - pages
    named = openapi()["components"]["parameters"]
    for path, operations in described.items():
        parameters = [named[each["$ref"].rpartition("/")[2]] for each in operations["get"]["parameters"]]
        assert {each["name"] for each in parameters if each["in"] == "path"} == set(re.findall(r"{(\w+)}", path))
        asked = path.format(store="orders", key="order-007")
        if path.startswith(("/stores", "/metadata")):
            known = orders.get(f"{asked}?unknown=1").json()["next"].removeprefix("known: ").split(", ")
            assert {each["name"] for each in parameters if each["in"] == "query"} == {*known} - {"none"}, path
        status = orders.get(asked).status_code
        others = {"windows": 400, "sessions": 400, "compare": 404}
        assert status in (200, 421, *(others[part] for part in path.split("/") if part in others)), path


def test_the_document_names_what_can_be_given_and_told() -> None:
    components = openapi()["components"]
    assert components["parameters"]["encoding"]["schema"]["enum"] == [*ENCODINGS]
    records = components["schemas"]["Comparison"]["properties"]["records"]
    assert records["items"]["properties"]["verdict"]["enum"] == [*get_args(Verdict)]
    assert openapi()["info"]["version"] == VERSION
