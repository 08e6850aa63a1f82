"""What would be lost, or be at risk, and must be allowed by name."""

from __future__ import annotations

from tests.bad_input.support import TASKS, Migration, expected_orders
from tests.support import KEY_VALUE, RAW, TIMESTAMPED, fixture_records

UPPER = (
    "from dataclasses import replace\ndef convert(record):\n    return replace(record, value=record.value.upper())\n"
)


def test_losing_the_timestamp_must_be_allowed(app: Migration) -> None:
    app.set("source", format=TIMESTAMPED, store="customers")
    app.set("target", format=KEY_VALUE)

    app.refused(f"{KEY_VALUE} cannot hold the timestamp that {TIMESTAMPED} holds", 'allow = ["loss:timestamp"]')
    assert not app.home.exists()

    app.set("conversion", allow=["loss:timestamp"])
    app.completes(
        {
            f"{task}/rocksdb/customers": {key: value for key, value, _ in fixture_records(task, "customers")}
            for task in TASKS
        }
    )


def test_allowing_another_risk_does_not_allow_this_one(app: Migration) -> None:
    app.set("source", format=TIMESTAMPED, store="customers")
    app.set("target", format=KEY_VALUE)
    app.set("conversion", allow=["changelog", "key-change"])

    app.refused("cannot hold the timestamp")


def test_a_function_over_a_changelog_must_be_allowed_and_is_said_in_the_report(app: Migration) -> None:
    app.module(UPPER)

    app.refused("the changelog topic would still hold", "misread", 'allow = ["changelog"]')
    assert not app.home.exists()

    app.set("conversion", allow=["changelog", "unclean-source"])
    upper = {
        path: {key: value[:8] + value[8:].upper() for key, value in records.items()}
        for path, records in expected_orders().items()
    }
    report = app.completes(upper)
    assert "the changelog no longer matches the store (allowed by name)" in report["changelog"]
    assert "the changelog no longer matches the store" in app.run().out


def test_another_system_s_store_as_a_kafka_streams_store_must_be_allowed(raw: Migration) -> None:
    raw.set("target", format=KEY_VALUE)

    raw.refused("the changelog topic would still hold", 'allow = ["changelog"]')


def test_leaving_kafka_streams_needs_no_changelog_to_be_right(app: Migration) -> None:
    app.set("target", format=RAW)

    report = app.completes({path: {k: v[8:] for k, v in store.items()} for path, store in expected_orders().items()})

    assert "changelog" in report["changelog"]
