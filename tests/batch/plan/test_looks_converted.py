"""A store whose records could be of the new form already is not converted unless the spec says that they are not."""

from pathlib import Path
from typing import Any

import pytest

from migrate import RefusedError, plan, run
from migrate.spec.spec import Spec
from tests.support import KEY_VALUE, TIMESTAMPED, make_spec, make_store, raises, read_families

NUMBERS = {b"key-%03d" % number: number.to_bytes(8, "little") for number in range(50)}
SWAPPED = {key: value[::-1] for key, value in NUMBERS.items()}
SWAP = {"from": {"serde": "int64", "endian": "little"}, "to": {"serde": "int64"}}


def _spec(folder: Path, *, target: str = KEY_VALUE, **conversion: Any) -> Spec:  # noqa: ANN401
    conversion = {"allow": ["changelog", "unclean-source"], "value": SWAP} | conversion
    return make_spec(folder, folder / "old", source_format=KEY_VALUE, target_format=target, conversion=conversion)


def test_numbers_that_may_have_been_swapped_before_are_refused(tmp_path: Path) -> None:
    make_store(tmp_path / "old", NUMBERS)
    with pytest.raises(RefusedError, match="migrated before") as caught:
        run(_spec(tmp_path))
    assert 'allow = ["looks-converted"]' in str(caught.value.hint)
    assert plan(_spec(tmp_path)).verdict.exit_code == 6


def test_unless_the_spec_allows_it(tmp_path: Path) -> None:
    make_store(tmp_path / "old", NUMBERS)
    run(_spec(tmp_path, allow=["changelog", "looks-converted", "unclean-source"]))
    assert read_families(tmp_path / "new")["default"] == SWAPPED


def test_another_column_family_distinguishes_them(tmp_path: Path) -> None:
    make_store(tmp_path / "old", NUMBERS)
    run(_spec(tmp_path, target=TIMESTAMPED))
    found = read_families(tmp_path / "new")["keyValueWithTimestamp"]
    assert found == {key: b"\xff" * 8 + value for key, value in SWAPPED.items()}


def test_so_does_one_record_that_cannot_be_of_the_new_form(tmp_path: Path) -> None:
    widened = {"from": {"serde": "int32"}, "to": {"serde": "int64"}}
    numbers = {b"a": (12).to_bytes(4, "big"), b"b": (3).to_bytes(4, "big")}
    make_store(tmp_path / "other" / "old", numbers)
    run(_spec(tmp_path / "other", value=widened))
    wide = {key: value.rjust(8, b"\0") for key, value in numbers.items()}
    assert read_families(tmp_path / "other" / "new")["default"] == wide


@pytest.mark.parametrize(
    ("source", "target", "converted"),
    [
        (
            "streamiz.key-value",
            "streamiz.timestamped-key-value",
            {key: (61_000).to_bytes(8, "little") + (8).to_bytes(4, "little") + value for key, value in NUMBERS.items()},
        ),
        (
            KEY_VALUE,
            "kafka-streams.versioned",
            {b"\xff" * 8 + key: (61_000).to_bytes(8, "big") + value for key, value in NUMBERS.items()},
        ),
    ],
)
def test_a_store_that_has_the_layout_already_is_not_given_it_twice(
    source: str, target: str, converted: dict[bytes, bytes], tmp_path: Path
) -> None:
    """One column family holds both layouts: only the records tell them apart."""
    for folder, records in (("once", NUMBERS), ("twice", converted)):
        make_store(tmp_path / folder / "old", records)
    specs = [
        make_spec(
            tmp_path / folder,
            tmp_path / folder / "old",
            source_format=source,
            target_format=target,
            conversion={"default_timestamp_ms": 61_000},
        )
        for folder in ("once", "twice")
    ]
    run(specs[0])
    assert read_families(tmp_path / "once/new")["default"] == converted
    raises(RefusedError, "migrated before", run, specs[1])
