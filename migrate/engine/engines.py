"""The engines, in the order in which they are asked. A new one is a module of its own and an entry here."""

from __future__ import annotations

from collections.abc import Iterable

from migrate.engine.engine import Engine, FamilyWork, Hooks, objection
from migrate.engine.left_out import LeftOut
from migrate.engine.native.native import Native
from migrate.engine.portable import Portable
from migrate.engine.rejects import RejectsByReason
from migrate.errors import RefusedError
from migrate.model.display import plural
from migrate.model.engine_choice import EngineChoice, EngineSetting

ENGINES: tuple[Engine, ...] = (Native(), Portable())
MOST_DEATHS = 3
"""As many pieces of work at which a process has died are no chance."""
LITTLE_BYTES = 64 << 20
"""Of fewer bytes, the last engine rewrites and verifies all before another one has started."""
_SORTED = "new keys that are sorted are converted in Python"
_AUTO = 'with [run] engine = "auto", the default, the portable engine does what another one cannot'


class _AfterBailOut(Portable):
    """Does what another engine has given up, and refuses what it leaves: with `[run] engine = "native"`."""

    def declines(self, work: FamilyWork, hooks: Hooks) -> str:
        raise _refused(sentence for engine in ENGINES[:-1] if (sentence := _sentence(engine, work, hooks)))


def engines_for(setting: EngineSetting) -> tuple[Engine, ...]:
    """The engines that a task may use, in the order in which they are asked; the last one does what others give up."""
    if setting == "portable":
        return ENGINES[-1:]
    return ENGINES if setting == "auto" else (*ENGINES[:-1], _AfterBailOut())


def prepare(setting: EngineSetting) -> bool:
    """Let these engines do what they do once on a machine. Returns whether all of them can work."""
    found = engines_for(setting)
    for engine in found:
        engine.prepare()
    return not any(engine.unavailable() for engine in found)


def choose(
    setting: EngineSetting, works: Iterable[FamilyWork], size: int, deaths: int = 0, *, is_sorted: bool = False
) -> EngineChoice:
    """The engines for these families, of so many bytes. Raises RefusedError where the setting's engine declines one.

    It is one decision for the whole run: its tasks carry it. `deaths`: pieces of work at which a process has died in
    another engine than the last, or was killed; the last engine does those, and after MOST_DEATHS everything.
    `is_sorted`: new keys are sorted, for which the last engine converts.
    """
    others, last = ENGINES[:-1], ENGINES[-1].name
    died = _deaths_in_words(deaths if others else 0)
    declined = _SORTED if is_sorted else died if deaths >= MOST_DEATHS else ""
    if why := _why_not_asked(setting, size if others else LITTLE_BYTES, declined):
        return EngineChoice(setting="portable", names=(last,), why=why)
    names, sentences = set[str](), dict[str, None]()
    hooks = Hooks(lambda: None, RejectsByReason(), LeftOut())
    for work in works:
        for engine in ENGINES:
            if not (sentence := _sentence(engine, work, hooks)):
                names.add(engine.name)
                break
            sentences[sentence] = None
    if setting == "native" and (sentences or not others):
        raise _refused(sentences)
    used = tuple(engine.name for engine in ENGINES if engine.name in names) or (ENGINES[0].name,)
    is_plain = used == (last,)
    return EngineChoice(
        setting="portable" if is_plain else setting,
        names=used,
        why="; ".join(filter(None, [*sentences, died])),
        is_threaded=last not in used,
    )


def _why_not_asked(setting: EngineSetting, size: int, declined: str) -> str:
    """Why the last engine does everything, whatever the families are; empty: it depends on them."""
    if setting == "portable":
        return '[run] engine = "portable"'
    if setting == "native" and declined:
        raise _refused([declined])
    if setting == "auto" and size < LITTLE_BYTES:
        return f"so little data that starting the {ENGINES[0].name} engine takes longer"
    return declined


def _deaths_in_words(deaths: int) -> str:
    if not deaths:
        return ""
    does = "does those" if deaths < MOST_DEATHS else "does everything"
    pieces = plural(deaths, "piece of work", "pieces of work")
    return f"a process died, or was killed, in native code at {pieces}: {ENGINES[-1].name} {does}"


def _sentence(engine: Engine, work: FamilyWork, hooks: Hooks) -> str:
    found = objection(engine, work, hooks)
    return f"{engine.name} declines: {found}" if found else ""


def _refused(sentences: Iterable[str]) -> RefusedError:
    why = "; ".join(sentences) or "there is no such engine in this installation"
    return RefusedError(f'[run] engine = "native" cannot be: {why}', hint=_AUTO)
