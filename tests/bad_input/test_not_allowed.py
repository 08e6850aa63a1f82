"""What would be lost, or be at risk, and must be allowed by name."""

from __future__ import annotations

from tests.bad_input.support import Migration, expected_orders
from tests.support import RAW

UPPER = (
    "from dataclasses import replace\ndef convert(record):\n    return replace(record, value=record.value.upper())\n"
)


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


def test_leaving_kafka_streams_needs_no_changelog_to_be_right(app: Migration) -> None:
    app.set("target", format=RAW)

    report = app.completes({path: {k: v[8:] for k, v in store.items()} for path, store in expected_orders().items()})

    assert "changelog" in report["changelog"]
