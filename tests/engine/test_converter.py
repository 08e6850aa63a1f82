"""New keys that belong to another partition, on the compiled and on the reference path."""

from dataclasses import replace

import pytest

from formats import Conversion, get_format
from formats.serdes.numeric import NumberSerde
from migrate.engine.portable import Converter
from migrate.engine.rejects import RejectsByReason
from migrate.stores.batch import Batch
from tests.support import KEY_VALUE

BIG, LITTLE = NumberSerde("int32"), NumberSerde("int32", "little")
"""Kafka Streams' and Streamiz' keys."""


def _third(key: bytes) -> int | None:
    return 3 if BIG.decode(key) % 4 == 3 else None


@pytest.mark.parametrize("is_compiled", [True, False])
def test_a_changed_key_of_another_partition_is_a_reject_and_an_equal_one_is_not(is_compiled: bool) -> None:
    known = get_format(KEY_VALUE)
    conversion = Conversion(
        replace(known, key_serde=LITTLE), replace(known, key_serde=BIG), keys_may_change=True, elsewhere=_third
    )
    assert conversion.may_move_keys
    numbers = [0x03000003, *range(1, 9)]  # the first one reads the same both ways
    old = Batch([LITTLE.encode(each) for each in numbers], [b"v"] * len(numbers))
    rejects = RejectsByReason()
    new = Converter(conversion, conversion.program if is_compiled else None, rejects, "default")(old)
    assert [BIG.decode(key) for key in new.keys] == [0x03000003, 1, 2, 4, 5, 6, 8]
    assert [(each.reason, each.records) for each in rejects.reasons] == [
        ("the new key belongs to partition 3: nobody would look for it in this one", 2)
    ]


def test_keys_that_cannot_change_are_in_no_question() -> None:
    known = get_format(KEY_VALUE)
    assert not Conversion(known, known, keys_may_change=True).may_move_keys
    assert not Conversion(known, known, function=lambda record: record).may_move_keys
    assert Conversion(known, known, function=lambda record: record, keys_may_change=True).may_move_keys
