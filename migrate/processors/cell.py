"""The rules of dual reading in a host's own state, whatever the host.

A host keeps two copies of a value, in two slots: the old one under the old name, the new one under the new name.

| call     | what it does                                                                                      |
|----------|---------------------------------------------------------------------------------------------------|
| get      | the new copy, or else the old one, converted; it writes nothing                                   |
| put      | writes the new copy; the old one goes, where there is one                                         |
| delete   | deletes both, always: an old copy that is not on this disk may still be in a changelog            |
| converge | moves the old copy, converted; where both exist, the new one wins                                 |

Nothing here imports a host or opens a store.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from enum import Enum
from importlib.metadata import version
from typing import Final, Generic, Literal, Protocol, TypeVar

from migrate.dual.converging import Progress
from migrate.errors import ConversionError, RefusedError, SpecError, system_errors_explained
from migrate.model.key_range import show_key

K = TypeVar("K")
K_contra = TypeVar("K_contra", contravariant=True)
N = TypeVar("N")
O = TypeVar("O")  # noqa: E741
O_co = TypeVar("O_co", covariant=True)
_LOG = logging.getLogger(__name__)


class Missing(Enum):
    """That there is no value; None may be one."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING
OnReject = Literal["raise", "quarantine"]


class UnreadableError(Exception):
    """That a host cannot read an old value: the reason of a reject, of which `convert` knows nothing."""


class Slots(Protocol[K_contra, N, O_co]):
    """Both copies of each value, as a host has them, for one message, transaction or partition."""

    def key_bytes(self, key: K_contra) -> bytes:
        """What names the value in an error and in `rejects`: the message key and the name of its state."""
        ...

    def new_value(self, key: K_contra) -> N | Missing: ...
    def old_value(self, key: K_contra) -> O_co | Missing: ...

    def has_old(self, key: K_contra) -> bool:
        """Whether there is an old copy; False too where a look costs more than an old copy that stays for a while."""
        ...

    def put(self, key: K_contra, value: N) -> None: ...

    def move(self, key: K_contra, value: N) -> None:
        """Write the converted value, with what else belongs to the old copy, such as its expiry."""
        ...

    def delete_new(self, key: K_contra) -> None: ...
    def delete_old(self, key: K_contra) -> None: ...


class DualCell(Generic[K, N, O]):
    """The rules, with a conversion, and a count of what became of the old copies."""

    def __init__(
        self, convert: Callable[[O], N | None], *, on_reject: OnReject = "raise", may_drop: bool = False
    ) -> None:
        """`convert`: from an old value to the new one, or, with `may_drop`, None to drop it; it must be pure.

        `on_reject`: "raise", or "quarantine": `converge` leaves what it cannot convert where it is.
        """
        if on_reject not in ("raise", "quarantine"):
            raise SpecError(f"on_reject is {on_reject!r}", hint='give "raise" or "quarantine"')
        self._convert = convert
        self._quarantines = on_reject == "quarantine"
        self._may_drop = may_drop
        self.rejects: dict[bytes, str] = {}
        """Reasons by key, of the old values that `converge` had to leave."""
        self.counts: Counter[str] = Counter()
        """Of old copies, by the names that Progress has for what became of them."""

    def progress(self, old_keys_left: int) -> Progress:
        return Progress(old_keys_left, rejected=len(self.rejects), **self.counts)

    def get(self, slots: Slots[K, N, O], key: K) -> N | Missing:
        """The value in the new form. Raises ConversionError."""
        value = slots.new_value(key)
        return value if value is not MISSING else self._converted(slots, key, slots.old_value(key))

    def exists(self, slots: Slots[K, N, O], key: K) -> bool:
        """Whether `get` finds a value. Raises ConversionError where the conversion decides that, and cannot."""
        if self._may_drop:
            return self.get(slots, key) is not MISSING
        return slots.new_value(key) is not MISSING or slots.old_value(key) is not MISSING

    def put(self, slots: Slots[K, N, O], key: K, value: N) -> None:
        had_old = slots.has_old(key)
        if had_old:
            self._note_superseded(slots, key)
        slots.put(key, value)
        if had_old:
            slots.delete_old(key)
            self.counts["moved_by_write"] += 1
            self._settle(slots, key)

    def delete(self, slots: Slots[K, N, O], key: K) -> None:
        self.counts["moved_by_delete"] += slots.has_old(key)
        slots.delete_old(key)
        slots.delete_new(key)
        self._settle(slots, key)

    def converge(self, slots: Slots[K, N, O], key: K) -> bool:
        """Move the old copy, if there is one; whether it is gone. Raises ConversionError, unless it quarantines."""
        if (old := slots.old_value(key)) is MISSING:
            return True
        if not self._note_superseded(slots, key):
            try:
                value = self._converted(slots, key, old)
            except ConversionError as error:
                if not self._quarantines:
                    raise
                if not self.rejects:
                    _LOG.warning("old values are left behind, the first one: %s", error.message)
                self.rejects[error.key] = error.reason
                return False
            if value is MISSING:
                self.counts["dropped"] += 1
            else:
                slots.move(key, value)
        slots.delete_old(key)
        self.counts["moved_by_converge"] += 1
        self._settle(slots, key)
        return True

    def _converted(self, slots: Slots[K, N, O], key: K, old: O | Missing) -> N | Missing:
        if old is MISSING:
            return MISSING
        try:
            value = self._convert(old)
        except OSError:
            raise  # a failure of the system, not of the value
        except UnreadableError as error:
            raise self._reject(slots, key, str(error)) from error
        except Exception as error:
            raise self._reject(slots, key, f"convert raised {type(error).__name__}: {error}") from error
        if value is None and not self._may_drop:
            raise self._reject(slots, key, "convert drops it (it returns None): if that is meant, give may_drop=True")
        return MISSING if value is None else value

    def _reject(self, slots: Slots[K, N, O], key: K, reason: str) -> ConversionError:
        name = slots.key_bytes(key)
        return ConversionError(
            f"the old value of {show_key(name)} cannot be converted: {reason}",
            key=name,
            reason=reason,
            hint="it stays where it is: fix the conversion and start again, or write or delete that value",
        )

    def _note_superseded(self, slots: Slots[K, N, O], key: K) -> bool:
        """Whether there is a new copy beside the old one, which then loses."""
        if slots.new_value(key) is MISSING:
            return False
        if not self.counts["superseded"]:
            _LOG.warning(
                "%s has a new and an old value: the new one wins. Old code has run since the new one did, or "
                "a part of the new code writes without the adapter (a function that is not wrapped), or a crash came "
                "between the two. `progress.superseded` counts such values",
                show_key(slots.key_bytes(key)),
            )
        self.counts["superseded"] += 1
        return True

    def _settle(self, slots: Slots[K, N, O], key: K) -> None:
        if self.rejects:
            self.rejects.pop(slots.key_bytes(key), None)


def check_version(package: str, extra: str, tested: tuple[str, ...]) -> None:
    """Raises RefusedError for a version of the host outside the tested ones, such as "3.28", or where it is missing."""
    with system_errors_explained():
        installed = version(package)
    if ".".join(installed.split(".")[:2]) not in tested:
        raise RefusedError(
            f"{package} {installed} is not a tested version: {', '.join(tested)} are",
            hint=f"pip install 'stateferry[{extra}]' installs one; until then, keep the old code on this version",
        )
