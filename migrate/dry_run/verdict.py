"""The verdict: one line, one exit code, by what the checks and the trial say."""

from __future__ import annotations

from collections.abc import Sequence

from migrate.batch.preflight.check import CheckReport, Outcome, failed
from migrate.dry_run.report import Tried, Verdict
from migrate.engine.rejects import way_to_fix
from migrate.errors import ChunkFailedError, ExitCode, MigrationError
from migrate.model.preview import UNPRINTABLE, Shown
from migrate.spec.spec import Spec


def checks_of_the_trial(spec: Spec, tried: Tried, records: int, rejects: float) -> tuple[CheckReport, ...]:
    """What a run of so many records would find out later: rejects, keys, and whether our own two paths agree.

    `rejects`: as many are to be expected of them.
    """
    return (_paths(tried), _rejects(spec, tried, records, rejects), _order(tried), _looks(tried))


def verdict_of(checks: Sequence[CheckReport], *, finished: str | None, next_step: str, tried: Tried | None) -> Verdict:
    """The first failure that matters most: a bug of ours, then a refusal, then rejects. `finished`: nothing is left."""
    if finished is not None:
        return Verdict(exit_code=0, go=True, sentence=f"nothing to do: {finished}", next_step="nothing is left to run")
    failures = [check for check in checks if check.outcome == "failed"]
    for code in (ExitCode.BUG, ExitCode.USAGE, ExitCode.REFUSED, *ExitCode):
        if code and (mine := [check for check in failures if check.exit_code == code]):
            return Verdict(exit_code=int(code), go=False, sentence=_no_go(code, mine), next_step=mine[0].fix)
    as_far = _as_far(tried)
    if any(check.outcome == "waiting" for check in checks):
        sentence = f"go, once the application is stopped: nothing else stands in the way{as_far}"
        return Verdict(exit_code=0, go=True, sentence=sentence, next_step=next_step)
    return Verdict(exit_code=0, go=True, sentence=f"go: nothing stands in the way{as_far}", next_step=next_step)


def _as_far(tried: Tried | None) -> str:
    """A sample may miss the one record that a run stumbles over."""
    if tried is None or tried.is_full:
        return ""
    return f", as far as a sample of {tried.records:,} records tells (--full tries every one)"


_NO_GO = {
    ExitCode.BUG: "no go: a bug of Stateferry's own",
    ExitCode.USAGE: "no go: the spec is wrong",
    ExitCode.REFUSED: "no go: a run would be refused",
    ExitCode.FAILED: "no go: a run would fail",
}


def _no_go(code: ExitCode, failures: list[CheckReport]) -> str:
    more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
    return f"{_NO_GO.get(code, _NO_GO[ExitCode.FAILED])}: {failures[0].detail}{more}"


def _paths(tried: Tried) -> CheckReport:
    name, claim = "conversion.paths", "the compiled and the reference path agree on the sample"
    if tried.differences:
        fix = "report this, with the output of --json: do not migrate with this version"
        return failed(name, claim, MigrationError("; ".join(tried.differences), hint=fix))
    if not tried.both_paths:
        why = "no compiled path: the reference path serves" if tried.program is None else "no record was read"
        return CheckReport(name=name, claim=claim, outcome="ok", detail=why)
    return CheckReport(name=name, claim=claim, outcome="ok", detail=f"{tried.both_paths:,} records by both")


def _rejects(spec: Spec, tried: Tried, records: int, expected: float) -> CheckReport:
    """`records`: in all; `expected`: rejects among them."""
    name, claim = "conversion.rejects", "no more records are rejected than [run] allows"
    detail = f"{tried.rejected:,} of {tried.records:,} records cannot be converted"
    way_out = way_to_fix(has_function=spec.conversion.function is not None)
    allowed = _allowed(spec, expected / max(records, tried.records, 1), expected=round(expected))
    if allowed is None:
        outcome: Outcome = "warning" if tried.rejected else "ok"
        return CheckReport(name=name, claim=claim, outcome=outcome, detail=detail, fix=_fix(spec, tried))
    fix = f'{way_out}; or allow it: [run] on_reject = "skip" or "dead-letter", and max_rejects'
    said = f"{detail}, {allowed}; most often: {tried.rejects[0].reason}"
    return failed(name, claim, ChunkFailedError(said, hint=fix))


def _has_cap(spec: Spec) -> bool:
    return spec.run.max_rejects is not None or spec.run.max_reject_share is not None


def _fix(spec: Spec, tried: Tried) -> str:
    """Of what does not keep a run from its end."""
    if not tried.rejected or _has_cap(spec):
        return ""
    return "cutover will ask for [run] max_rejects, or for --accept-rejects with their number"


def _allowed(spec: Spec, share: float, expected: int) -> str | None:
    """What [run] allows, where that is less than is to be expected."""
    run = spec.run
    if run.on_reject == "fail":
        return 'on_reject = "fail" allows none' if share else None
    if run.max_reject_share is not None and share > run.max_reject_share:
        return f"max_reject_share allows {run.max_reject_share:.2%}"
    if run.max_rejects is not None and expected > run.max_rejects:
        return f"about {expected:,} of all, max_rejects allows {run.max_rejects:,}"
    if share and spec.target_path is not None and not _has_cap(spec):
        return "which publishing needs [run] max_rejects for, or --accept-rejects with their number"
    return None


def _order(tried: Tried) -> CheckReport:
    name, claim = "conversion.keys", "new keys are different from each other, and in the order of the old ones"
    wrong = tried.collisions[0] if tried.collisions else tried.out_of_order
    if wrong is None:
        return CheckReport(name=name, claim=claim, outcome="ok")
    what = "two old keys become one" if tried.collisions else "the conversion changes the order of keys"
    said = f"{what}: {_words(wrong.first)} and {_words(wrong.second)} in {wrong.store_partition}"
    fix = "the function must keep the order of keys and map no two keys to one"
    return failed(name, claim, ChunkFailedError(said, hint=fix))


def _words(key: Shown) -> str:
    """As text where it is text, else in hex."""
    return f"0x{key.hex}" if UNPRINTABLE in key.text or not key.text.isascii() else f'"{key.text}"'


def _looks(tried: Tried) -> CheckReport:
    fix = "compare the records below with what the application writes, before you run"
    return CheckReport(
        name="source.looks",
        claim="the records look like [source] format and like no other",
        outcome="warning" if tried.look_alikes else "ok",
        detail="; ".join(each.sentence for each in tried.look_alikes),
        fix=fix if tried.look_alikes else "",
    )
