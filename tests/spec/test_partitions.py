"""`[target] partitions`: what goes with it, and the spec as each of the stores sees it."""

from pathlib import Path
from typing import Any

import pytest

from migrate import Spec, SpecError
from tests.support import KEY_VALUE, TIMESTAMPED

WINDOW = "kafka-streams.window"
BROKER = {"bootstrap": "broker:9092"}
BY_HOUR = {"name": "by-hour", "format": WINDOW, "retention_ms": 7_200_000}


def _spec(source: dict[str, Any] | None = None, target: dict[str, Any] | None = None, **sections: Any) -> Spec:  # noqa: ANN401
    named = {"stores": ["orders", BY_HOUR]} if source is None else source
    return Spec(
        name="orders",
        work_dir=Path("work"),
        source={"format": KEY_VALUE, "path": "state/shop", **named},
        target={"format": TIMESTAMPED, "path": "new/shop", "partitions": 12} | (target or {}),
        **sections,
    )


def test_a_store_with_a_format_of_its_own_keeps_it() -> None:
    change = {"default_timestamp_ms": 5, "allow": ["changelog"]}
    spec = _spec(target={"stores": ["orders-12", "by-hour-12"]}, conversion=change)
    assert spec.source.store_names == ("orders", "by-hour")
    orders, by_hour = spec.of_store("orders"), spec.of_store("by-hour")
    assert (orders.source.format, orders.target.format, orders.target.store) == (KEY_VALUE, TIMESTAMPED, "orders-12")
    assert (by_hour.source.format, by_hour.target.format, by_hour.target.store) == (WINDOW, WINDOW, "by-hour-12")
    assert (by_hour.source.store_names, by_hour.source.retention_ms) == (("by-hour",), 7_200_000)
    assert (orders.conversion.default_timestamp_ms, by_hour.conversion.default_timestamp_ms) == (5, -1)
    assert (by_hour.home, by_hour.target.partitions) == (spec.home, 12)


def test_without_such_a_store_the_spec_is_that_of_each_store() -> None:
    spec = _spec({"stores": ["orders", "refunds"]})
    assert spec.of_store("refunds") is spec
    assert (spec.partitioner, _spec({"store": "orders", "partitioner": "crc32"}).partitioner) == ("murmur2", "crc32")


@pytest.mark.parametrize(
    ("source", "target", "sections", "message"),
    [
        (None, {"partitions": 0}, {}, "target.partitions: should be greater than or equal to 1, is 0"),
        (None, {"partitions": 1 << 30}, {}, "should be less than or equal to 10000"),
        (None, {"path": None}, {}, r"needs \[target\] path"),
        ({}, {}, {}, r"needs \[source\] store or stores"),
        (None, {}, {"changelog": BROKER}, "needs a new name"),
        (None, {"partitions": None}, {}, "'by-hour': a store with a format of its own moves along"),
        ({"store": "orders", "partitioner": "crc32"}, {"partitions": None}, {}, "partitioner has no effect"),
        ({"store": "orders", "partitioner": "crc64"}, {}, {}, 'should be "murmur2", "crc32" or "module:function"'),
        ({"stores": ["orders", {"name": "orders", "format": WINDOW}]}, {}, {}, "names a store twice"),
        ({"stores": ["a", {"name": "b", "format": "kafka-streams.windw"}]}, {}, {}, "unknown format"),
        ({"stores": ["a", {"name": "b", "format": "streamiz.window"}]}, {}, {}, "another system"),
        ({"stores": ["a", {"name": "b", "formt": WINDOW}]}, {}, {}, "unknown key .*: did you mean 'format'"),
        ({"stores": ["a", {"name": "b", "format": WINDOW, "segment_ms": 1}]}, {}, {}, "without retention_ms"),
        (None, {"format": "streamiz.timestamped-key-value"}, {}, "another system"),
        (None, {"retention_ms": 7_200_000}, {}, r"\[target\] retention_ms"),
        (
            None,
            {"stores": ["a", "b"]},
            {"changelog": {**BROKER, "timestamps": "changelog"}},
            'timestamps = "changelog"',
        ),
        (None, {"stores": ["a", "b"]}, {"changelog": {**BROKER, "missing": "rebuild"}}, 'missing = "rebuild"'),
        ({"stores": ["a", {"name": "b", "format": KEY_VALUE, "retention_ms": 1}]}, {}, {}, "have segments by time"),
    ],
)
def test_a_mistake_is_named(
    source: dict[str, Any] | None, target: dict[str, Any], sections: dict[str, Any], message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        _spec(source, target, **sections)
