"""The Schema Registry's client, against a server of the same API."""

import json
import logging
import socket
from base64 import b64encode
from collections.abc import Iterator
from uuid import UUID

import pytest

from migrate.errors import ExitCode, RegistryError
from migrate.spec.registry_http import TOKEN, USER_INFO, RegistryHttp, Tries
from migrate.spec.schema_registry import RegisteredSchema, SchemaRegistry
from tests.shared.registry_server import Registry, Version, serving

GUID = UUID("89791762-2336-4186-9674-299b90a802e2")
OLD = '{"type":"record","name":"Order","fields":[{"name":"a","type":"int"}]}'
NEW = '{"type":"record","name":"Order","fields":[{"name":"a","type":"long"}]}'
QUICK = Tries(pause_s=0)


@pytest.fixture
def registry() -> Iterator[Registry]:
    versions = [Version(1, OLD, is_deleted=True), Version(4, NEW, GUID)]
    with serving(Registry({"orders-value": versions})) as started:
        yield started


def _client(registry: Registry, tries: Tries = QUICK) -> SchemaRegistry:
    return SchemaRegistry.at(registry.url + "/", tries)


def _failure(registry: Registry, tries: Tries = QUICK) -> RegistryError:
    with pytest.raises(RegistryError) as caught:
        _client(registry, tries).text_of(4)
    assert caught.value.exit_code is ExitCode.REFUSED
    assert caught.value.hint
    return caught.value


def test_a_schema_by_its_id(registry: Registry) -> None:
    assert _client(registry).text_of(4) == NEW
    assert registry.asked == ["/schemas/ids/4"]


def test_a_schema_by_its_guid(registry: Registry) -> None:
    assert _client(registry).text_of(GUID) == NEW
    assert registry.asked == [f"/schemas/guids/{GUID}"]


def test_every_version_of_a_subject_and_the_deleted_ones_too(registry: Registry) -> None:
    found = _client(registry).of_subject("orders-value")
    assert found == (RegisteredSchema(OLD, 1, None), RegisteredSchema(NEW, 4, GUID))


def test_a_subject_may_have_any_name(registry: Registry) -> None:
    name = ":.eu:orders/%2F é-value"
    registry.subjects[name] = [Version(9, NEW)]
    assert _client(registry).of_subject(name) == (RegisteredSchema(NEW, 9, None),)


def test_what_confluent_cloud_tells_only_on_request_is_requested(registry: Registry) -> None:
    _client(registry).text_of(4)
    assert registry.sent[0]["Confluent-Accept-Unknown-Properties"] == "true"
    assert "application/vnd.schemaregistry.v1+json" in registry.sent[0]["Accept"]


# References


def _record(name: str, *types: object, namespace: str = "shop") -> str:
    fields = [{"name": f"f{at}", "type": type_} for at, type_ in enumerate(types)]
    return json.dumps({"type": "record", "name": name, "namespace": namespace, "fields": fields})


def test_what_a_schema_refers_to_is_put_in(registry: Registry) -> None:
    money = {"type": "fixed", "name": "Money", "namespace": "shop", "size": 8}
    registry.subjects |= {
        "money": [Version(10, json.dumps(money))],
        "line": [Version(11, _record("Line", "Money", "int"), references=[_reference("Money", "money")])],
        "both": [
            Version(
                12,
                _record("Both", {"type": "array", "items": "shop.Line"}, "Money", ["null", "Line"]),
                references=[_reference("Line", "line"), _reference("Money", "money")],
            )
        ],
    }
    found = json.loads(_client(registry).text_of(12))
    array, second, third = (field["type"] for field in found["fields"])
    assert array["items"]["name"] == "Line"
    assert array["items"]["fields"][0]["type"] == money, "each type is defined where it is named first"
    assert (second, third) == ("shop.Money", ["null", "shop.Line"])


def test_a_type_within_a_type_may_be_named_before_it(registry: Registry) -> None:
    inner = {"type": "enum", "name": "State", "symbols": ["OPEN"]}
    registry.subjects |= {
        "line": [Version(11, _record("Line", inner))],
        "both": [Version(12, _record("Both", "State", "Line"), references=[_reference("Line", "line")])],
    }
    first, second = (field["type"] for field in json.loads(_client(registry).text_of(12))["fields"])
    assert first == inner | {"namespace": "shop"}
    assert second["fields"][0]["type"] == "shop.State"


def _reference(name: str, subject: str, version: int = 1) -> dict[str, object]:
    return {"name": f"shop.{name}", "subject": subject, "version": version}


def test_schemas_that_refer_to_each_other_come_to_an_end(registry: Registry) -> None:
    registry.subjects |= {
        "a": [Version(20, _record("A", ["null", "B"]), references=[_reference("B", "b")])],
        "b": [Version(21, _record("B", ["null", "A"]), references=[_reference("A", "a")])],
    }
    found = json.loads(_client(registry).text_of(20))
    assert found["fields"][0]["type"][1]["fields"][0]["type"] == ["null", "shop.A"]


def test_a_reference_to_nothing_is_told(registry: Registry) -> None:
    registry.subjects["a"] = [Version(4, _record("A", "B"), references=[_reference("B", "gone", 7)])]
    registry.subjects["orders-value"] = []
    error = _failure(registry)
    assert "version 7 of subject 'gone', which schema 4 refers to" in error.message


# Who asks


@pytest.mark.parametrize(
    ("variable", "value", "sent"),
    [
        (USER_INFO, "key:pa:ss", "Basic " + b64encode(b"key:pa:ss").decode()),
        (USER_INFO, "user:password\n", "Basic " + b64encode(b"user:password").decode()),
        (TOKEN, "t0ken", "Bearer t0ken"),
        (TOKEN, "secret-token\n", "Bearer secret-token"),
    ],
)
def test_credentials_come_from_the_environment(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, sent: str
) -> None:
    """A line end behind them is no part of them: files end with one."""
    registry.authorization = sent
    assert "requires credentials (HTTP 401)" in _failure(registry).message
    monkeypatch.setenv(variable, value)
    assert _client(registry).text_of(4) == NEW
    assert registry.sent[-1]["Authorization"] == sent


def test_wrong_credentials_are_refused_and_not_shown(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    registry.authorization = "Bearer right"
    monkeypatch.setenv(TOKEN, "s3cret")
    error = _failure(registry)
    assert "does not accept these credentials (HTTP 401)" in error.message
    assert TOKEN in error.hint
    assert len(registry.asked) == 1, "the same credentials would be refused again"
    shown = f"{error} {error.__cause__!r} {error.__context__!r} {_client(registry)!r} {caplog.text}"
    assert "s3cret" not in shown


@pytest.mark.parametrize(
    ("environment", "reason"),
    [({USER_INFO: "key"}, "has no colon"), ({USER_INFO: "a:b", TOKEN: "t"}, "are both set")],
)
def test_credentials_that_cannot_be_meant(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], reason: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(RegistryError, match=reason):
        _client(registry)
    assert registry.asked == []


def test_credentials_go_to_no_other_place(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, "s3cret")
    with serving(Registry()) as elsewhere:
        registry.troubles, registry.location = [(302, "")], elsewhere.url
        error = _failure(registry)
        assert elsewhere.asked == []
    assert f"redirects to {elsewhere.url} (HTTP 302)" in error.message


# What goes wrong


@pytest.mark.parametrize("trouble", [(500, "oops"), (503, ""), (429, ""), (0, "")], ids=str)
def test_another_try_may_help(registry: Registry, trouble: tuple[int, str]) -> None:
    registry.troubles = [trouble, trouble]
    assert _client(registry).text_of(4) == NEW
    assert len(registry.asked) == 3


@pytest.mark.parametrize(
    ("trouble", "told"), [((500, "{}"), "HTTP 500"), ((0, ""), "Server disconnected without sending a response.")]
)
def test_tries_come_to_an_end(registry: Registry, trouble: tuple[int, str], told: str) -> None:
    registry.troubles = [trouble] * 9
    error = _failure(registry)
    assert f"does not answer /schemas/ids/4: {told}, 4 times" in error.message
    assert len(registry.asked) == 4


def test_a_registry_that_keeps_silent_is_not_waited_for(registry: Registry) -> None:
    registry.troubles = [(-1, "")] * 2
    error = _failure(registry, Tries(count=2, timeout_s=0.05, pause_s=0))
    assert "no answer in time, 2 times" in error.message


@pytest.mark.parametrize("begin", ["HTTP/1.1 200 OK\r\n\r\n[", "HTTP/1.1 200", "HTTP/1.1 422 No\r\n\r\n{"])
def test_a_registry_that_trickles_is_not_waited_for(registry: Registry, begin: str) -> None:
    registry.troubles = [(-2, begin)] * 9
    error = _failure(registry, Tries(timeout_s=60, total_s=0.3, pause_s=0))
    assert "no answer in time, once" in error.message


def test_all_tries_together_have_an_end(registry: Registry) -> None:
    registry.troubles = [(-1, "")] * 9
    error = _failure(registry, Tries(count=9, timeout_s=0.2, total_s=0.5, pause_s=0.01))
    assert (
        "in time, once" in error.message or "in time, 2 times" in error.message or "in time, 3 times" in error.message
    )


def test_a_registry_that_is_slow_once_is_asked_again(registry: Registry) -> None:
    registry.troubles = [(-1, "")]
    assert _client(registry, Tries(timeout_s=3, pause_s=0)).text_of(4) == NEW


def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(RegistryError, match=r"does not answer .*: Connection refused, 2 times") as caught:
            SchemaRegistry(RegistryHttp(url, None, Tries(count=2, pause_s=0))).text_of(1)
    assert "can be reached from here" in caught.value.hint


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (lambda client: client.text_of(5), "has no schema 5: Schema not found"),
        (lambda client: client.text_of(UUID(int=0)), "has no schema 00000000-.*: Schema not found"),
        (lambda client: client.of_subject("gone"), "has no subject 'gone': Subject 'gone' not found"),
    ],
)
def test_what_it_does_not_have_is_told_with_what_to_check(registry: Registry, asked: object, told: str) -> None:
    assert callable(asked)
    with pytest.raises(RegistryError, match=told) as caught:
        asked(_client(registry))
    assert "check" in caught.value.hint
    assert len(registry.asked) == 1


def test_a_url_that_is_not_the_apis_base(registry: Registry) -> None:
    with pytest.raises(RegistryError, match="is not there") as caught:
        SchemaRegistry.at(f"{registry.url}/subjects", QUICK).text_of(4)
    assert "the API's base" in caught.value.hint


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        *((each, "check the URL") for each in ("<html>", "[]", "7", '{"schema": 5}', '{"schema": "{"}', "{}")),
        *((each, "check the URL") for each in ("[" * 100_000, json.dumps({"schema": "[" * 100_000}))),
        (json.dumps({"schema": '"int"', "references": 5}), "fix the reference"),
    ],
    ids=range(9),
)
def test_something_that_is_no_registry(registry: Registry, body: str, hint: str) -> None:
    registry.troubles = [(200, body)]
    assert hint in _failure(registry).hint
    assert len(registry.asked) == 1


def test_a_refusal_tells_the_registrys_own_words(registry: Registry) -> None:
    registry.troubles = [(422, '{"error_code": 42202, "message": "Invalid version"}')]
    assert "HTTP 422, Invalid version" in _failure(registry).message


def test_a_schema_that_is_not_avro(registry: Registry) -> None:
    registry.subjects["orders-value"] = [Version(4, 'syntax = "proto3";', kind="PROTOBUF")]
    assert "schema 4 in http://127.0.0.1" in (message := _failure(registry).message)
    assert "is PROTOBUF, not Avro" in message


@pytest.mark.parametrize("token", ["secret\ntoken", "secret-t\u00f6ken"])
def test_a_token_that_no_header_holds_is_not_shown(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, token)
    with pytest.raises(RegistryError) as caught:
        SchemaRegistry.at("http://localhost:8081")
    assert TOKEN in str(caught.value)
    assert "secret" not in str(caught.value)
