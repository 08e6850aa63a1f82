"""Generated pairs of schemas and values: reference, interpreter and generated code make the same bytes of them."""

import io
import json
import math
from collections.abc import Callable
from random import Random

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from formats.avro.resolving import check_resolvable, findings, losses_in, read, write
from formats.avro.schema import AvroSchema
from formats.errors import InvalidEntryError, UnresolvableSchemasError
from tests.formats.avro.agreement import REJECTED, Paths
from tests.formats.avro.clashing import clashing_pair
from tests.formats.avro.evolving import blocks, encoded, root_of, schema_pair, tree_of

SHORT = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
PAIRS = 20_000
RANDOMS = st.randoms(use_true_random=False)


def _agree(random: Random, draw: Callable[[Random], tuple[AvroSchema, AvroSchema]] = schema_pair) -> bool:
    """Whether the pair that came up can be resolved."""
    writer, reader = draw(random)
    types, root = root_of(writer)
    try:
        paths = Paths(writer, reader)
    except UnresolvableSchemasError:
        with pytest.raises(UnresolvableSchemasError):
            check_resolvable(writer, reader)
        return False
    tree = tree_of(random, types, root)
    value = encoded(types, root, tree)
    found = paths(value)
    assert paths(encoded(types, root, tree, blocks(random))) == found
    if found != REJECTED:
        assert losses_in(value, writer, reader) <= {*findings(writer, reader).losses}
    assert paths(value + b"\0") == REJECTED
    if value:
        assert paths(value[: random.randrange(len(value))]) == REJECTED
        spoilt = bytearray(value)
        spoilt[random.randrange(len(spoilt))] ^= 1 << random.randrange(8)
        paths(bytes(spoilt))
    return True


@given(RANDOMS)
@SHORT
def test_three_paths_agree(random: Random) -> None:
    _agree(random)


@given(RANDOMS)
@SHORT
def test_three_paths_agree_where_aliases_meet_names(random: Random) -> None:
    _agree(random, clashing_pair)


@pytest.mark.timeout(3600)
def test_three_paths_agree_on_twenty_thousand_pairs() -> None:
    resolved = seed = 0
    while resolved < PAIRS:
        try:
            resolved += _agree(Random(seed))
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise
        seed += 1


@given(RANDOMS)
@SHORT
def test_what_is_read_can_be_written_again(random: Random) -> None:
    schema, _ = schema_pair(random)
    types, root = root_of(schema)
    value = encoded(types, root, tree_of(random, types, root))
    try:
        found = read(value, schema, schema)
    except InvalidEntryError as error:
        assert "twice" in str(error)
        return
    written = write(found, schema)
    if written != value:  # a float's NaN has many forms, and Python keeps one of them
        assert _without_nan(read(written, schema, schema)) == _without_nan(found)


def _without_nan(found: object) -> object:
    if isinstance(found, dict):
        return {key: _without_nan(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return [_without_nan(value) for value in found]
    return "NaN" if isinstance(found, float) and math.isnan(found) else found


@given(RANDOMS)
@SHORT
def test_fastavro_alone_makes_the_same_of_what_leaves_it_no_choice(random: Random) -> None:
    writer, reader = schema_pair(random, plain=True)
    types, root = root_of(writer)
    try:
        paths = Paths(writer, reader)
    except UnresolvableSchemasError:
        return
    value = encoded(types, root, tree_of(random, types, root))
    found = paths(value)
    if isinstance(found, str):
        return
    old, new = json.loads(writer.text), json.loads(reader.text)
    known = fastavro.schemaless_reader(io.BytesIO(value), old, new)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, new, known)
    if out.getvalue() != found:  # NaN again, and keys that a map holds twice
        ours, theirs = (fastavro.schemaless_reader(io.BytesIO(each), new, None) for each in (found, out.getvalue()))
        assert _without_nan(ours) == _without_nan(theirs)
