"""Checks of the conversion that the spec asks for."""

from __future__ import annotations

from formats import Conversion, conversion_problem
from formats.layout import TIMESTAMP
from migrate.batch.plan.key_order import may_change_keys
from migrate.batch.preflight.sort_checks import check_may_sort
from migrate.batch.source.source import is_another_system, source_system, target_system
from migrate.errors import RefusedError
from migrate.spec.allowed import CHANGELOG, UNVERIFIED, allowing, check_allowed, possible_targets
from migrate.spec.changelog_way import check_catch_up, check_partitions_changelog, check_way, is_rewritten, way_of
from migrate.spec.conversion_ref import ConversionRef
from migrate.spec.spec import Spec

_CATCH_UP = (
    "add a section [changelog] with `bootstrap`: stateferry catch-up SPEC then converts what it writes meanwhile; or "
)


def check_conversion(spec: Spec, conversion: Conversion, ref: ConversionRef) -> None:
    """Raises RefusedError for a loss or a risk that the spec does not allow by name."""
    check_possible(spec, conversion)
    check_may_sort(spec, may_change_keys=may_change_keys(conversion))
    _check_times(conversion)
    if ref.key is not None or ref.value is not None:
        from migrate.spec.serdes import check_payloads

        check_payloads(conversion, ref.key, ref.value, is_placed=spec.target.partitions is not None)
    if is_another_system(spec) and spec.target_path is None:
        raise RefusedError(
            f"{spec.source.format} and {spec.target.format} belong to two systems, whose state directories differ: the "
            "new store cannot take the old one's place",
            hint="name a path that does not exist yet in [target] path: a complete new state directory is made there",
        )
    share_a_changelog = conversion.source.has_changelog and conversion.target.has_changelog
    is_replayed = share_a_changelog and (spec.changelog is not None or not is_rewritten(spec, conversion))
    if spec.run.source == "snapshot" and not is_replayed:
        raise RefusedError(
            f"a snapshot cannot be migrated from {spec.source.format} to {spec.target.format} while the application "
            "goes on: what it writes meanwhile would have to come from a changelog that fits the new store as it is",
            hint=f'{_CATCH_UP if share_a_changelog else ""}set [run] source = "live", and stop the application for the '
            "whole run",
        )
    can_rename = target_system(spec).can_rename
    check_way(spec, conversion, can_rename=can_rename)
    check_partitions_changelog(spec, conversion)
    if spec.run.source == "snapshot" and way_of(spec, conversion) != "none":
        check_catch_up(spec, conversion, "the application goes on", can_rename=can_rename)
    check_allowed(conversion, spec.conversion.allow if spec.changelog is None else {*spec.conversion.allow, CHANGELOG})


def check_verified(spec: Spec, *, accepted: bool, has_begun: bool) -> str:
    """How new stores are verified; for a migration that has begun, its ledger is checked instead."""
    mode = spec.run.verify
    if mode != "off" or has_begun:
        return mode
    if accepted or UNVERIFIED in spec.conversion.allow:
        return "off, and that is accepted"
    if spec.target_path is None:
        return "off: cutover asks for stateferry verify SPEC before it, or for --unverified"
    raise RefusedError(
        '[run] verify = "off": new stores that were not compared are not published without consent',
        hint=f'[run] verify = "full" or "digest"; to publish without: --unverified, or {allowing(UNVERIFIED)}',
    )


def check_possible(spec: Spec, conversion: Conversion) -> None:
    """Raises RefusedError, with alternatives, where there is no such conversion, whatever the spec allows."""
    if (problem := conversion_problem(conversion.source, conversion.target)) is not None:
        raise RefusedError(problem, hint=_what_it_can_become(conversion))
    _check_kind(spec, conversion)


def _check_times(conversion: Conversion) -> None:
    """Raises RefusedError for a versioned target where nothing supplies the time of a value."""
    source, target = conversion.source, conversion.target
    is_known = TIMESTAMP in source.carries or conversion.default_timestamp_ms >= 0 or conversion.function is not None
    if target.kind == "versioned" and not is_known:
        raise RefusedError(
            f"{target.id} records since when each value holds, which {source.id} does not",
            hint="give one time for all values: [conversion] default_timestamp_ms, in milliseconds since 1970; or give "
            "a function that knows the times",
        )


def _what_it_can_become(conversion: Conversion) -> str:
    possible = " or ".join(possible_targets(conversion.source, conversion.target))
    if not possible:
        return "name another format in [target] format: `stateferry formats` lists what becomes what"
    return f"name what it can become in [target] format: {possible}"


def _check_kind(spec: Spec, conversion: Conversion) -> None:
    """Raises RefusedError for stores of a kind that can be copied, but not converted."""
    is_copy = spec.source.format == spec.target.format and conversion.function is None
    for store in spec.source.store_names:
        kind = source_system(spec).unsupported_kind(store)
        if kind is not None and not (is_copy and not conversion.changes_payloads):
            raise RefusedError(f"{store!r} is {kind.name}, which cannot be converted: {kind.reason}", hint=kind.instead)
