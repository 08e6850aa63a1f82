"""`[conversion.key]` and `[conversion.value]`: what is understood, and how mistakes are named."""

import tomllib
import traceback
from pathlib import Path
from uuid import UUID

import pytest

from migrate.batch.identity import spec_identity
from migrate.errors import SpecError
from migrate.spec.conversion import conversion_ref
from migrate.spec.serde_section import SerdeChangeSection
from migrate.spec.spec import Spec, parse_spec

GUID = "89791762-2336-4186-9674-299b90a802e2"
NEW = 'to = {serde = "avro", frame = "confluent", id = 7, schema = "v2.avsc"}'
OLD = 'from = {serde = "avro", frame = "confluent", schemas = {1 = "v1.avsc"}}'
HEAD = """
name = "orders"
work_dir = "work"
[source]
format = "kafka-streams.key-value"
path = "state"
[target]
format = "kafka-streams.key-value"
[conversion.value]
"""


def _spec(text: str) -> Spec:
    return parse_spec(tomllib.loads(HEAD + text), base_dir=Path("/tmp"))


def _section(text: str) -> SerdeChangeSection:
    section = _spec(text).conversion.value
    assert section is not None
    return section


def _mistake(text: str) -> str:
    with pytest.raises(SpecError) as caught:
        _spec(text)
    assert caught.value.hint
    return caught.value.message


def test_files_by_guid() -> None:
    section = _section(
        f'from = {{serde = "avro", frame = "header", schemas = {{"{GUID}" = "v1.avsc", 3 = "v0.avsc"}}}}\n'
        f'to = {{serde = "avro", frame = "header", guid = "{GUID.upper()}", schema = "v2.avsc"}}'
    )
    assert set(section.source.schemas) == {UUID(GUID), 3}
    assert section.target.guid == UUID(GUID)


@pytest.mark.parametrize(
    "old",
    [
        'from = {serde = "avro", frame = "confluent", registry = "http://r:8081", subject = "orders-value"}',
        'from = {serde = "avro", frame = "confluent", registry = "https://r/api", ids = [1, 4]}',
        f'from = {{serde = "avro", frame = "header", registry = "http://r", ids = [1, "{GUID}"]}}',
        'from = {serde = "avro", frame = "none", registry = "http://r", ids = [1]}',
        'from = {serde = "avro", frame = "none", schema = "v1.avsc"}',
        'from = {serde = "json"}',
    ],
)
@pytest.mark.parametrize(
    "new",
    [
        NEW,
        'to = {serde = "avro", frame = "confluent", id = 7, registry = "http://r"}',
        f'to = {{serde = "avro", frame = "header", guid = "{GUID}", registry = "http://r"}}',
        'to = {serde = "avro", frame = "none", schema = "v2.avsc"}',
        'to = {serde = "avro", frame = "none", registry = "http://r", id = 7}',
        f'to = {{serde = "avro", frame = "none", registry = "http://r", guid = "{GUID}"}}',
        'to = {serde = "uuid"}',
    ],
)
def test_every_way_to_name_a_schema(old: str, new: str) -> None:
    assert _section(f"{old}\n{new}").target.serde in ("avro", "uuid")


def _from(options: str) -> str:
    return f"from = {{{options}}}\n{NEW}"


def _to(options: str) -> str:
    return f"{OLD}\nto = {{{options}}}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (OLD, "'conversion.value.to' is missing"),
        (_from('serde = "int46"'), "conversion.value.from: unknown serde 'int46': did you mean 'int64'?"),
        (_from('serde = "short"'), "did you mean 'int16'?"),
        (_from('serde = "LongSerde"'), "did you mean 'int64'?"),
        (_from('serde = "integer"'), "did you mean 'int32'?"),
        (_from('serde = "list"'), "a list needs `inner`"),
        (_from('serde = "list", inner = {serde = "list", inner = "string"}'), "and are no lists"),
        (
            _from('serde = "list", inner = {serde = "avro", frame = "header", schemas = {1 = "a"}}'),
            "the entries of a list have no headers",
        ),
        (_from('serde = "protobuf"'), "unknown serde 'protobuf': not possible yet"),
        (_from('sredle = "json"'), "unknown key 'conversion.value.from.sredle': did you mean 'serde'?"),
        (_from('serde = "avro", frame = "none", schem = "a"'), "from.schem': did you mean 'schema'?"),
        (_from('serde = "avro", frame = "none", avro_schema = "a"'), "from.avro_schema': did you mean 'schema'?"),
        (_from('serde = "avro", id = 5'), "unknown key 'conversion.value.from.id': did you mean 'ids'?"),
        (f"form = 1\n{OLD}\n{NEW}", "unknown key 'conversion.value.form': did you mean 'from'?"),
        (_from('serde = "int64", endian = "bg"'), "conversion.value.from.endian: should be 'big' or 'little'"),
        (_from('serde = "json", endian = "big"'), "the serde 'json' has no option `endian`"),
        (_from('serde = "int64", schema = "a"'), "the serde 'int64' has no option `schema`"),
        (_from('serde = "avro", schema = "a"'), "conversion.value.from: avro needs a `frame`"),
        (_from('serde = "avro", frame = "confluent"'), "give one of `schemas`, `subject` or `ids`"),
        (_from('serde = "avro", frame = "confluent", schema = "a"'), "give one of `schemas`, `subject` or `ids`"),
        (_from('serde = "avro", frame = "none", schemas = {1 = "a"}'), "give one of `schema` or `ids`"),
        (_from('serde = "avro", frame = "none", schema = "a", registry = "http://r"'), "go with `registry`"),
        (_from('serde = "avro", frame = "confluent", subject = "s"'), "go with `registry`"),
        (_from('serde = "avro", frame = "none", registry = "http://r", ids = [1, 2]'), "give one id"),
        (_from(f'serde = "avro", frame = "confluent", schemas = {{"{GUID}" = "a"}}'), "GUIDs go with frame"),
        (_from('serde = "avro", frame = "confluent", schemas = {a = "v"}'), "should be a schema's id, like 7, or its"),
        (
            _from('serde = "avro", frame = "confluent", schemas = {2147483648 = "v"}'),
            "a schema's id is at most 2147483647",
        ),
        (_from('serde = "avro", frame = "confluent", registry = "r:8081", ids = [1]'), "is a URL, like http"),
        (_from('serde = "avro", frame = "confluent", registry = "http://u:p@r", ids = [1]'), "holds a password"),
        (
            _from('serde = "avro", frame = "framed"'),
            "should be 'none', 'confluent', 'apicurio', 'glue' or 'header', is 'framed'",
        ),
        (_to('serde = "avro", frame = "confluent", id = 7'), "give `schema`, a file, or `registry`"),
        (_to('serde = "avro", frame = "confluent", schema = "a"'), "needs the new schema's `id`, and no `guid`"),
        (_to(f'serde = "avro", frame = "confluent", schema = "a", guid = "{GUID}"'), "needs the new schema's `id`"),
        (_to('serde = "avro", frame = "header", schema = "a", id = 7'), "needs the new schema's `guid`, and no `id`"),
        (_to('serde = "avro", frame = "header", schema = "a", guid = "7"'), "to.guid: should be a GUID, like"),
        (_to('serde = "avro", frame = "none", schema = "a", id = 7'), "the frame writes neither"),
        (_to('serde = "avro", frame = "none", registry = "http://r"'), "goes with `registry`"),
        (
            _to(f'serde = "avro", frame = "none", registry = "http://r", id = 7, guid = "{GUID}"'),
            "give `id` or `guid`, not both",
        ),
        (_to('serde = "avro", frame = "confluent", schema = "a", id = "7"'), "conversion.value.to.id: should be"),
        (_to('serde = "avro", frame = "confluent", schema = "a", id = -1'), "conversion.value.to.id: should be"),
        (f'from = "json"\n{NEW}', "conversion.value.from: should be a section, with keys of its own"),
    ],
)
def test_mistakes_are_told_in_words(text: str, message: str) -> None:
    assert message in _mistake(text)


@pytest.mark.parametrize(
    "url",
    ["http://user:s3cret@r", "http://user:pa/s3cret@r", "htp://user:s3cret@r", "user:s3cret@r", "http://r?key=s3cret"],
)
def test_a_password_is_not_printed(url: str) -> None:
    """Nor is it by `--debug`, which prints what caused the error too."""
    content = tomllib.loads(HEAD + _from(f'serde = "avro", frame = "confluent", registry = "{url}", ids = [1]'))
    with pytest.raises(SpecError) as caught:
        parse_spec(content, base_dir=Path("/tmp"))
    assert "3cret" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("url", ["http://[::1", "http://r:port", "http://r:99999", "http://"])
def test_what_is_no_url_is_said_at_once(url: str) -> None:
    assert "is a URL, like http" in _mistake(
        _from(f'serde = "avro", frame = "confluent", registry = "{url}", ids = [1]')
    )


def test_the_serdes_are_part_of_the_identity() -> None:
    def identity(text: str) -> str:
        content = tomllib.loads(HEAD.replace("[conversion.value]", text))
        spec = parse_spec(content, base_dir=Path("/tmp"))
        return spec_identity(spec, conversion_ref(spec))["[conversion]"]

    serdes = 'from = {serde = "json"}\nto = {serde = "json"}'
    assert len({identity(""), identity(f"[conversion.value]\n{serdes}"), identity(f"[conversion.key]\n{serdes}")}) == 3


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("apicurio', registry = 'http://r', ids = [1]", "apicurio', id = 7, schema = 'v'", "are files"),
        ("glue', schemas = {GUID = 'v'}", "glue', guid = 'GUID', registry = 'http://r'", "are files"),
        ("apicurio', schemas = {GUID = 'v'}", "apicurio', id = 7, schema = 'v'", "by number"),
        ("glue', schemas = {1 = 'v'}", "glue', guid = 'GUID', schema = 'v'", "by the UUID"),
        ("apicurio', schemas = {1 = 'v'}", "glue', id = 7, schema = 'v'", "needs the new schema's `guid`"),
        ("apicurio', schemas = {1 = 'v'}", "confluent', id = 2147483648, schema = 'v'", "8 bytes"),
    ],
)
def test_frames_of_other_registries_have_ids_of_their_own(source: str, target: str, message: str) -> None:
    text = f"from = {{serde = 'avro', frame = '{source}}}\nto = {{serde = 'avro', frame = '{target}}}"
    assert message in _mistake(text.replace("GUID", str(UUID(int=7))))
