"""From the spec's sections to serdes: files, a registry, mistakes in either; and what of it is identity."""

import json
import pickle
import tomllib
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from formats.avro.schema import AvroSchema
from formats.encoding.headers import Headers
from formats.serde import BYTES, Serde, uses_headers
from formats.serdes.avro_serde import AvroSerde
from formats.serdes.boolean import BooleanSerde
from formats.serdes.conversions import resolving
from formats.serdes.json_text import JsonSerde
from formats.serdes.list_serde import ListSerde
from formats.serdes.numeric import NUMBERS, NumberSerde
from formats.serdes.registry import SERDE_NAMES
from formats.serdes.text import StringSerde, UuidSerde
from migrate.errors import RegistryError, SpecError
from migrate.spec.registry_http import TOKEN, USER_INFO
from migrate.spec.serde_section import SerdeChangeSection
from migrate.spec.serdes import PayloadSerdes, load_serdes, payload_warnings
from tests.shared.registry_server import Registry, Version, serving

GUID = UUID("89791762-2336-4186-9674-299b90a802e2")
OLD = '{"type":"record","name":"Order","fields":[{"name":"a","type":"int"}]}'
NEW = '{"type":"record","name":"Order","fields":[{"name":"a","type":"long"}]}'
ORDERS = 'subject = "orders-value"'
TO_FILE = 'to = {serde = "avro", frame = "confluent", id = 7, schema = "new.avsc"}'


def decode_with(serde: Serde, payload: bytes, headers: Headers) -> object:
    assert uses_headers(serde)
    decoded: object = serde.decode_with(payload, headers)
    return decoded


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "old.avsc").write_text(OLD)
    (tmp_path / "new.avsc").write_text(NEW)
    return tmp_path


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    for name in (USER_INFO, TOKEN):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving(Registry({"orders-value": [Version(1, OLD, GUID), Version(4, NEW, UUID(int=4))]})) as started:
        yield started


def _load(text: str, folder: Path) -> PayloadSerdes:
    section = SerdeChangeSection.model_validate(tomllib.loads(text))
    return load_serdes(section, "value", lambda path: folder / path)


def _from_registry(registry: Registry, options: str, frame: str = "confluent") -> str:
    return f'from = {{serde = "avro", frame = "{frame}", registry = "{registry.url}", {options}}}'


def _schemas(serde: object) -> dict[object, str]:
    assert isinstance(serde, AvroSerde)
    return {schema_id: schema.text for schema_id, schema in serde.schemas}


def test_files_become_schemas(folder: Path) -> None:
    files = '{1 = "old.avsc", 4 = "new.avsc"}'
    loaded = _load(f'from = {{serde = "avro", frame = "confluent", schemas = {files}}}\n{TO_FILE}', folder)
    assert loaded.source == AvroSerde(((1, AvroSchema(OLD)), (4, AvroSchema(NEW))), "confluent")
    assert loaded.target == AvroSerde(((7, AvroSchema(NEW)),), "confluent")
    assert loaded.source.decode(b"\0\0\0\0\1\2") == {"a": 1}


def test_a_file_without_a_frame(folder: Path) -> None:
    text = 'from = {serde = "avro", frame = "none", schema = "old.avsc"}\n'
    loaded = _load(text + 'to = {serde = "avro", frame = "none", schema = "new.avsc"}', folder)
    assert (_schemas(loaded.source), _schemas(loaded.target)) == ({None: OLD}, {None: NEW})


def test_comments_in_a_schema_say_nothing(folder: Path) -> None:
    text = f'from = {{serde = "avro", frame = "confluent", schemas = {{1 = "old.avsc"}}}}\n{TO_FILE}'
    plain = _load(text, folder)
    (folder / "old.avsc").write_text(f"// the first one\n{OLD} /* and no more */")
    commented = _load(text, folder)
    assert commented.identity == plain.identity
    assert commented.source.decode(b"\0\0\0\0\1\2") == {"a": 1}


def test_a_subject_becomes_every_schema_of_it(registry: Registry, folder: Path) -> None:
    registry.subjects["orders-value"].append(Version(1, OLD))
    loaded = _load(f"{_from_registry(registry, ORDERS)}\n{TO_FILE}", folder)
    assert _schemas(loaded.source) == {1: OLD, 4: NEW}


def test_in_a_header_frame_a_subject_is_known_by_guids_and_by_ids(registry: Registry, folder: Path) -> None:
    loaded = _load(f"{_from_registry(registry, ORDERS, 'header')}\n{TO_FILE}", folder)
    assert _schemas(loaded.source) == {1: OLD, GUID: OLD, 4: NEW, UUID(int=4): NEW}
    headers = Headers.of([("__value_schema_id", b"\x01" + GUID.bytes)])
    assert decode_with(loaded.source, b"\2", headers) == loaded.source.decode(b"\0\0\0\0\1\2") == {"a": 1}


def test_a_registry_that_tells_no_guids_cannot_name_headers(registry: Registry, folder: Path) -> None:
    registry.subjects["orders-value"] = [Version(1, OLD)]
    with pytest.raises(RegistryError, match="reports no GUID for schema 1") as caught:
        _load(f"{_from_registry(registry, ORDERS, 'header')}\n{TO_FILE}", folder)
    assert "schemas = {" in caught.value.hint


def test_ids_and_guids_of_the_registry(registry: Registry, folder: Path) -> None:
    named = _from_registry(registry, f'ids = [4, "{GUID}"]', "header")
    to = f'to = {{serde = "avro", frame = "header", guid = "{UUID(int=4)}", registry = "{registry.url}"}}'
    loaded = _load(f"{named}\n{to}", folder)
    assert _schemas(loaded.source) == {4: NEW, GUID: OLD}
    assert _schemas(loaded.target) == {UUID(int=4): NEW}


def test_without_a_frame_the_registrys_id_is_not_written(registry: Registry, folder: Path) -> None:
    to = f'to = {{serde = "avro", frame = "none", id = 4, registry = "{registry.url}"}}'
    loaded = _load(f"{_from_registry(registry, 'ids = [1]', 'none')}\n{to}", folder)
    assert (_schemas(loaded.source), _schemas(loaded.target)) == ({None: OLD}, {None: NEW})
    assert loaded.target.encode({"a": 1}) == b"\2"


def test_every_known_serde_can_be_named(folder: Path) -> None:
    expected: tuple[Serde, ...] = (BYTES, StringSerde(), BooleanSerde(), *map(NumberSerde, NUMBERS))
    known = {serde.name: serde for serde in (*expected, UuidSerde(), JsonSerde())}
    assert {*known, "avro", "list"} == set(SERDE_NAMES)
    for name, serde in known.items():
        loaded = _load(f'from = {{serde = "{name}"}}\nto = {{serde = "{name}"}}', folder)
        assert loaded.source == loaded.target == serde


def test_byte_order(folder: Path) -> None:
    loaded = _load('from = {serde = "int64", endian = "little"}\nto = {serde = "int64"}', folder)
    assert (loaded.source, loaded.target) == (NumberSerde("int64", "little"), NumberSerde("int64", "big"))


def test_a_key_has_the_keys_header(folder: Path) -> None:
    section = SerdeChangeSection.model_validate(
        tomllib.loads(f'from = {{serde = "avro", frame = "header", schemas = {{"{GUID}" = "old.avsc"}}}}\n{TO_FILE}')
    )
    loaded = load_serdes(section, "key", lambda path: folder / path)
    headers = Headers.of([("__key_schema_id", b"\x01" + GUID.bytes)])
    assert decode_with(loaded.source, b"\2", headers) == {"a": 1}


def test_what_was_loaded_can_be_carried_to_an_executor(registry: Registry, folder: Path) -> None:
    loaded = _load(f"{_from_registry(registry, 'ids = [1, 4]')}\n{TO_FILE}", folder)
    assert pickle.loads(pickle.dumps(loaded)) == loaded


# Mistakes


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read the schema .*gone.avsc: No such file"),
        (b"{", "the schema .*gone.avsc is not an Avro schema"),
        (b'{"type":"record"}', "the schema .*gone.avsc is not an Avro schema"),
        (b"\xff", "the schema .*gone.avsc is not UTF-8 text"),
    ],
)
def test_a_file_that_is_no_schema(folder: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (folder / "gone.avsc").write_bytes(content)
    with pytest.raises(SpecError, match=message) as caught:
        _load(f'from = {{serde = "avro", frame = "confluent", schemas = {{1 = "gone.avsc"}}}}\n{TO_FILE}', folder)
    assert caught.value.hint


def test_a_registered_schema_that_is_none(registry: Registry, folder: Path) -> None:
    registry.subjects["orders-value"] = [Version(1, '{"type": "enum"}')]
    with pytest.raises(SpecError, match="schema 1 of subject 'orders-value' is not an Avro schema"):
        _load(f"{_from_registry(registry, ORDERS)}\n{TO_FILE}", folder)


# Identity


def test_the_schemas_are_identity_and_their_spaces_are_not(folder: Path) -> None:
    text = f'from = {{serde = "avro", frame = "confluent", schemas = {{1 = "old.avsc"}}}}\n{TO_FILE}'
    before = _load(text, folder).identity
    (folder / "new.avsc").write_text(json.dumps(json.loads(NEW), indent=2))
    assert _load(text, folder).identity == before
    (folder / "new.avsc").write_text(NEW.replace("long", "double"))
    after = _load(text, folder).identity
    (folder / "new.avsc").write_text(NEW)
    (folder / "old.avsc").write_text(OLD.replace("int", "float"))
    assert len({before, after, _load(text, folder).identity}) == 3


@pytest.mark.parametrize("side", ["{}", '{{serde = "list", inner = {}}}'], ids=["value", "entries of a list"])
def test_a_version_that_a_subject_gets_meanwhile_changes_no_identity(
    side: str, registry: Registry, folder: Path
) -> None:
    sides = _from_registry(registry, ORDERS), TO_FILE
    text = "\n".join(f"{name} = {side.format(of)}" for name, of in (each.split(" = ", 1) for each in sides))
    before = _load(text, folder)
    registry.subjects["orders-value"].append(Version(9, NEW))
    after = _load(text, folder)
    assert after.source != before.source
    assert after.identity == before.identity


def test_a_name_that_java_refuses_is_a_warning_of_the_new_schema_alone(folder: Path, registry: Registry) -> None:
    odd = OLD.replace('"a"', '"order-id"')
    registry.subjects["orders-value"] = [Version(1, odd, GUID)]
    registered = _from_registry(registry, ORDERS)
    (folder / "new.avsc").write_text(NEW.replace('"a"', '"id","aliases":["order-id"]'))
    assert payload_warnings(None, _load(f"{registered}\n{TO_FILE}", folder), has_function=False) == []
    (folder / "new.avsc").write_text(NEW.replace('"a"', '"order-id"'))
    (warning,) = payload_warnings(None, _load(f"{registered}\n{TO_FILE}", folder), has_function=False)
    assert "Java's Avro refuses the new schema for its names: 'order-id'" in warning


def test_a_byte_order_mark_of_a_schema_is_read_over(folder: Path) -> None:
    text = f'from = {{serde = "avro", frame = "confluent", schemas = {{1 = "old.avsc"}}}}\n{TO_FILE}'
    before = _load(text, folder)
    (folder / "old.avsc").write_bytes(b"\xef\xbb\xbf" + OLD.encode())
    assert _load(text, folder) == before


def test_the_entries_of_a_list_are_resolved_and_their_losses_known(folder: Path) -> None:
    (folder / "new.avsc").write_text(NEW.replace('"a","type":"long"', '"b","type":"long","default":9'))
    inner = '{serde = "avro", frame = "confluent", schemas = {1 = "old.avsc"}}'
    new = '{serde = "avro", frame = "confluent", id = 7, schema = "new.avsc"}'
    loaded = _load(f'from = {{serde = "list", inner = {inner}}}\nto = {{serde = "list", inner = {new}}}', folder)
    assert json.loads(loaded.identity)["from"] == {"1": json.dumps(json.loads(OLD))}
    source = resolving(loaded.source, loaded.target)
    assert isinstance(source, ListSerde)
    assert source.losses == ("the field Order.a is left out",)
    found = source.decode(bytes.fromhex("0100000002ffffffff00000006") + b"\0\0\0\0\1\2")
    assert found.lost() == {"the field Order.a is left out"}
    assert loaded.target.encode(found) == bytes.fromhex("0100000002ffffffff00000006") + b"\0\0\0\0\7\x12"
    numbers = _load(
        'from = {serde = "list", inner = "int32"}\nto = {serde = "list", inner = {serde = "int64"}}', folder
    )
    assert numbers.target == ListSerde(NumberSerde("int64"))
