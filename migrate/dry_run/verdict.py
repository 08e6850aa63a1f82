"""The verdict: one line and one exit code, from the checks and the sample conversion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from formats.conversion import BELONGS_ELSEWHERE
from formats.wide_columns import NOT_A_PAIR
from migrate.batch.preflight.check import CheckReport, Outcome, failed
from migrate.dry_run.dry_run_report import SampleConversion, Verdict
from migrate.dry_run.source_reader import Tally
from migrate.engine.left_out import WAY_TO_ALLOW, dropped_in_words
from migrate.engine.rejects import way_to_fix
from migrate.errors import ChunkFailedError, ExitCode, MigrationError, RefusedError
from migrate.model.display import plural
from migrate.model.preview import shown_key
from migrate.spec.allowed import asks_to_allow
from migrate.spec.spec import Spec
from migrate.stores.rocksdb.scan import COLUMNS_HINT
from migrate.stores.rocksdb.writing import COLLAPSE, SORT

NEEDED_TO_READ = ("source.found", "source.files", "source.comparator", "source.tables", "source.format")
"""The checks without which no record is read."""
_OF_THE_SOURCE = (*NEEDED_TO_READ, "source.records")
"""Where one fails, the source is not what the spec says: it may have nothing that could be lost."""
_MANY = 100
"""Of so many sampled records some must be kept."""
_COSTS_RECORDS = ("changelog.retention",)
"""Warned of by the verdict itself: a run goes through, and what it writes does not stay."""


def conversion_checks(
    spec: Spec, tried: SampleConversion, records: int, expected: Tally, *, is_said: bool, is_sorted: bool
) -> tuple[CheckReport, ...]:
    """The checks of the sample conversion: paths, rejects, dropped records, partitions, key order, format.

    `expected`: among the `records` of the old store. `is_said`: another check says why none can be converted.
    `is_sorted`: the run sorts the new keys.
    """
    counted = _rejects(spec, tried, records, expected.rejects)
    if is_said and counted.outcome == "failed" and tried.rejected == tried.records:
        counted = CheckReport(name=counted.name, claim=counted.claim, outcome="not run", detail="needs source.records")
    left_out = (counted, *_dropped(spec, tried, records, expected.dropped), _partitions(tried, counted))
    return (_paths(tried, records), *left_out, _order(spec, tried, is_sorted=is_sorted), _format(tried))


def make_verdict(
    checks: Sequence[CheckReport], *, finished: str | None, next_step: str, tried: SampleConversion | None
) -> Verdict:
    """The first failure of the most important kind: a bug of Stateferry, then a refusal, then rejects.

    Where the source is not what the spec says, what the spec has to allow comes last.

    `finished`: the result of an earlier run that leaves nothing to do.
    """
    if finished is not None:
        return Verdict(exit_code=0, go=True, sentence=f"nothing to do: {finished}", next_step="nothing is left to run")
    failures = [check for check in checks if check.outcome == "failed"]
    if any(check.name in _OF_THE_SOURCE for check in failures):
        failures.sort(key=lambda check: check.name == "conversion.allowed" and asks_to_allow(check.fix))
    for code in (ExitCode.BUG, ExitCode.USAGE, ExitCode.REFUSED, *ExitCode):
        if code and (mine := [check for check in failures if check.exit_code == code]):
            more = f" (and {len(mine) - 1} more)" if len(mine) > 1 else ""
            sentence = f"{_NO_GO.get(code, _NO_GO[ExitCode.FAILED])}: {mine[0].detail}{more}"
            return Verdict(exit_code=int(code), go=False, sentence=sentence, next_step=mine[0].fix)
    is_waiting = any(check.outcome == "waiting" for check in checks)
    go = "go, once the application is stopped: nothing else" if is_waiting else "go: nothing"
    lossy = [check for check in checks if check.name in _COSTS_RECORDS and check.outcome == "warning"]
    sentence = "; but ".join([f"{go} stands in the way{_limits(tried)}", *(check.detail for check in lossy)])
    steps = "; ".join([*(check.fix for check in lossy), next_step])
    return Verdict(exit_code=0, go=True, sentence=sentence, next_step=steps)


def _limits(tried: SampleConversion | None) -> str:
    """What the verdict is based on: all records, or a sample, which may miss a record that fails a run."""
    if tried is None or (tried.is_full and not tried.records + tried.expired):
        return ""
    records = tried.records + tried.expired
    left_out = "".join(f", {count:,} {why}" for why, count in tried.left_out.items() if count)
    kept = f"{tried.converted:,} were converted{left_out}" if left_out else ""
    if not tried.is_full:
        sample = f", as far as a sample of {plural(records, 'record')} shows"
        return f"{sample}{f', of which {kept}' if kept else ''} (--full converts all records)"
    if kept:
        rejected = f", and {tried.rejected:,} cannot be converted" if tried.rejected else ""
        return f"; of {'the one record' if records == 1 else f'all {records:,} records'} {kept}{rejected}"
    if records == 1:
        return "; the one record cannot be converted" if tried.rejected else "; the one record was converted"
    if tried.rejected:
        return f"; all {records:,} records were read, and {tried.rejected:,} of them cannot be converted"
    return f"; all {records:,} records were converted"


_NO_GO = {
    ExitCode.BUG: "no go: a bug of Stateferry's own",
    ExitCode.USAGE: "no go: the spec is wrong",
    ExitCode.REFUSED: "no go: a run would be refused",
    ExitCode.FAILED: "no go: a run would fail",
}


def _paths(tried: SampleConversion, records: int) -> CheckReport:
    """`records`: of the old store."""
    name, claim = "conversion.paths", "the compiled and the reference path agree on the sample"
    if records and not tried.is_full and not tried.records + tried.expired:
        fix = "stateferry plan SPEC --full converts all records"
        return CheckReport(name=name, claim=claim, outcome="warning", detail="no record was tried", fix=fix)
    if tried.differences:
        fix = "report this, with the output of --json: do not migrate with this version"
        return failed(name, claim, MigrationError("; ".join(tried.differences), hint=fix))
    if not tried.both_paths:
        why = "no compiled path: the reference path converts" if tried.program is None else "no record was read"
    else:
        why = f"{plural(tried.both_paths, 'record')} by both"
    return CheckReport(name=name, claim=claim, outcome="ok", detail=why)


def _rejects(spec: Spec, tried: SampleConversion, records: int, expected: float) -> CheckReport:
    """`records`: of the old store; `expected`: rejects among them."""
    name, claim = "conversion.rejects", "no more records are rejected than [run] allows"
    detail = f"{tried.rejected:,} of {plural(tried.records, 'record')} cannot be converted"
    allowed = _allowed(spec, expected / max(records, tried.records, 1), expected=round(expected))
    if allowed is None:
        outcome: Outcome = "warning" if tried.rejected else "ok"
        later = "cutover will ask for [run] max_rejects, or for --accept-rejects with their number"
        fix = later if tried.rejected and not _has_cap(spec) else ""
        return CheckReport(name=name, claim=claim, outcome=outcome, detail=detail, fix=fix)
    correction = way_to_fix(has_function=spec.conversion.function is not None)
    fix = f'{correction}; or allow it: [run] on_reject = "skip" or "dead-letter", and max_rejects'
    if spec.run.on_reject == "fail" and any(each.reason == NOT_A_PAIR for each in tried.rejects):
        return failed(name, claim, RefusedError(f"{detail}: {NOT_A_PAIR}", hint=COLUMNS_HINT))
    message = f"{detail}, {allowed}; most frequent reason: {tried.rejects[0].reason}"
    return failed(name, claim, ChunkFailedError(message, hint=fix))


def _partitions(tried: SampleConversion, rejects: CheckReport) -> CheckReport:
    """`rejects`: the check of their number, which [run] may allow."""
    name, claim = "conversion.partitions", "no new key is known to belong to another partition than its old one"
    found = sum(each.records for each in tried.rejects if each.reason.startswith(BELONGS_ELSEWHERE))
    if not found:
        return CheckReport(name=name, claim=claim, outcome="ok")
    message = f"{found:,} of {plural(tried.records, 'record')} get a key that belongs to another partition"
    fix = (
        "keep these keys as they are: the application looks for a key where its partitioner puts it; or let the "
        "records go through its input again"
    )
    if rejects.outcome == "failed":
        return failed(name, claim, RefusedError(f"{message}, and a run rejects them", hint=fix))
    return CheckReport(name=name, claim=claim, outcome="warning", detail=f"{message}, and will be missing", fix=fix)


def _dropped(spec: Spec, tried: SampleConversion, records: int, expected: float) -> Iterator[CheckReport]:
    """What the function drops; nothing where there is none. `expected`: among `records`, all of the old store."""
    if spec.conversion.function is None:
        return
    name, claim = "conversion.dropped", "the function drops no more records than the spec allows"
    detail = dropped_in_words(tried.dropped, tried.converted, tried.dropped_keys) or "none"
    is_nothing_kept = tried.dropped and not tried.converted and tried.records >= _MANY
    if is_nothing_kept and spec.run.max_dropped_share != 1:
        fix = "does the function lack a return? if the new store is meant to be empty: [run] max_dropped_share = 1"
        yield failed(name, claim, RefusedError(f"nothing is kept: {detail}", hint=fix))
        return
    whole = max(records, tried.records)
    excess = spec.dropped_too_many(max(tried.dropped, round(expected)), whole)
    if excess:
        of_all = "" if tried.is_full else f", about {expected:,.0f} in the whole store"
        fix = f"does the function lack a return? {WAY_TO_ALLOW}"
        yield failed(name, claim, RefusedError(f"{detail}{of_all}; {excess}", hint=fix))
        return
    yield CheckReport(name=name, claim=claim, outcome="warning" if tried.dropped else "ok", detail=detail)


def _has_cap(spec: Spec) -> bool:
    return spec.run.max_rejects is not None or spec.run.max_reject_share is not None


def _allowed(spec: Spec, share: float, expected: int) -> str | None:
    """The limit of [run] that the expected rejects exceed, in words; None: they are allowed."""
    run = spec.run
    if run.on_reject == "fail":
        return 'on_reject = "fail" allows none' if share else None
    if run.max_reject_share is not None and share > run.max_reject_share:
        return f"max_reject_share allows {run.max_reject_share:.2%}"
    if run.max_rejects is not None and expected > run.max_rejects:
        return f"about {expected:,} in the whole store, max_rejects allows {run.max_rejects:,}"
    if share and spec.target_path is not None and not _has_cap(spec):
        return "and publishing needs [run] max_rejects, or --accept-rejects with their number"
    return None


def _order(spec: Spec, tried: SampleConversion, *, is_sorted: bool) -> CheckReport:
    name = "conversion.keys"
    claim = "new keys are different from each other, and in the order of the old ones or sorted"
    wrong = tried.collisions[0] if tried.collisions else None if is_sorted else tried.out_of_order
    if wrong is None:
        detail = "they are sorted" if is_sorted else ""
        return CheckReport(name=name, claim=claim, outcome="ok", detail=detail)
    what = "two old keys become one" if tried.collisions else "the conversion changes the order of keys"
    message = f"{what}: {shown_key(wrong.first)} and {shown_key(wrong.second)} in {wrong.store_partition}"
    if tried.collisions and is_sorted and spec.conversion.on_collision is not None:
        message += "; the newest record of each key stays"
        return CheckReport(name=name, claim=claim, outcome="warning", detail=message)
    error = RefusedError if is_sorted else ChunkFailedError
    return failed(name, claim, error(message, hint=COLLAPSE if tried.collisions else SORT))


def _format(tried: SampleConversion) -> CheckReport:
    fix = "compare the records below with what the application writes, before you run"
    return CheckReport(
        name="source.looks",
        claim="the records look like [source] format and like no other",
        outcome="warning" if tried.look_alikes else "ok",
        detail="; ".join(each.sentence for each in tried.look_alikes),
        fix=fix if tried.look_alikes else "",
    )
