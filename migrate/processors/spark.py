"""Dual reading inside PySpark's `transformWithState`: a handle over two state variables. See docs/processors.md.

It has the methods of the handle that it replaces, and `converge()` for the key that is being handled. A batch commits
both variables, or neither. `progress` and `rejects` are of one partition in one batch: Spark calls `init` for each.
Keys that do not arrive are moved by `stateferry sweep`, which also says when none is left.

A variable may have a time to live, as the last of its arguments. When a value moves, it begins again.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import chain
from reprlib import repr
from typing import Any, ClassVar, NamedTuple, Protocol

from migrate.dual.converging import Progress
from migrate.errors import RefusedError, SpecError
from migrate.processors.cell import MISSING, DualCell, Missing, OnReject

Row = tuple[Any, ...]
Variable = tuple[Any, ...]
"""The arguments of `getValueState`, `getListState` or `getMapState`: name, schema or schemas, milliseconds to live."""
Convert = Callable[[Any], Any]
_Key = tuple[Row, ...]
"""What the calls for a value take before anything else: the key in a map; values and lists have none."""
_WHOLE: _Key = ()


class _Handle(Protocol):
    """PySpark's StatefulProcessorHandle: nothing of PySpark is imported here."""

    @property
    def getValueState(self) -> Callable[..., Any]: ...
    @property
    def getListState(self) -> Callable[..., Any]: ...
    @property
    def getMapState(self) -> Callable[..., Any]: ...


class _State(NamedTuple):
    """A state variable, and its calls for a value."""

    variable: Any
    read: Callable[..., Any]
    """None: there is no value."""
    exists: Callable[..., bool]
    write: Callable[..., None]
    remove: Callable[..., None]


class _Copies:
    """Both copies of the values of the grouping key that is being handled."""

    def __init__(self, name: str, new: _State, old: _State, *, expires: bool) -> None:
        """`expires`: whether a new value does."""
        self._name, self._new, self._old, self._expires = name, new, old, expires
        self._grouping_key: object = None
        self._seen: tuple[_Key, bool] | None = None
        """The key that was looked at last, and whether it has an old copy."""

    def begin(self, grouping_key: object) -> None:
        self._grouping_key, self._seen = grouping_key, None

    def key_bytes(self, key: _Key) -> bytes:
        grouping_key = self._grouping_key if isinstance(self._grouping_key, tuple) else (self._grouping_key,)
        return " ".join(map(str, (*grouping_key, self._name, *chain(*key)))).encode()

    def new_value(self, key: _Key) -> Any | Missing:  # noqa: ANN401
        value = self._new.read(*key)
        if value is None:
            return MISSING
        if not self._expires:
            # It is not sure that no old copy is beside it. A look would cost a round trip each time, and nobody sees
            # that copy, so it stays until `converge` meets it. It would be seen once the new value had expired.
            self._seen = key, False
        return value

    def old_value(self, key: _Key) -> Any | Missing:  # noqa: ANN401
        value = self._old.read(*key)
        self._seen = key, value is not None
        return MISSING if value is None else value

    def has_old(self, key: _Key) -> bool:
        if self._seen is None or self._seen[0] != key:
            self._seen = key, self._old.exists(*key)
        return self._seen[1]

    def put(self, key: _Key, value: Any) -> None:  # noqa: ANN401
        self._new.write(*key, value)

    move = put

    def delete_new(self, key: _Key) -> None:
        self._new.remove(*key)

    def delete_old(self, key: _Key) -> None:
        self._old.remove(*key)
        self._seen = key, False


class _Dual(ABC):
    """What the three have in common."""

    _schemas: ClassVar = 1
    """How many follow the name of a variable."""

    def __init__(
        self,
        handle: _Handle,
        *,
        new: Variable,
        old: Variable,
        convert: Convert,
        on_reject: OnReject = "raise",
        may_drop: bool = False,
    ) -> None:
        """`new`, `old`: the arguments of the call for such a handle.

        `convert`: from an old value, of a list or a map each, to the new one, a tuple, or, with `may_drop`, None to
        drop it. `on_reject`: "raise", or "quarantine": `converge` leaves what it cannot convert where it is.
        """
        if new[0] == old[0]:
            raise SpecError(f"{new[0]} is the new variable and the old one", hint="give the new one another name")
        if type(new[1]) is type(old[1]) and new[1 : self._schemas] != old[1 : self._schemas]:
            raise SpecError(
                f"the keys of {old[0]} are {old[1]}, those of {new[0]} {new[1]}", hint="give both the same schema"
            )
        self._convert = convert
        self._may_drop = may_drop
        new_state, old_state = self._declare(handle, new), self._declare(handle, old)
        self._new, self._old = new_state.variable, old_state.variable
        expires = new[1 + self._schemas :] not in ((), (None,))
        self._copies = _Copies(old[0], new_state, old_state, expires=expires)
        self._cell: DualCell[_Key, Any, Any] = DualCell(self._converted, on_reject=on_reject, may_drop=may_drop)
        _tell_grouping_keys(handle, self._copies.begin)
        self._check = _checker(new[self._schemas], self._new)

    @staticmethod
    @abstractmethod
    def _declare(handle: _Handle, arguments: Variable) -> _State: ...

    def _converted(self, old: Any) -> Any:  # noqa: ANN401 - a row, or of a list the rows
        row = self._convert(old)
        if row is None:
            return None
        if not isinstance(row, tuple):
            raise TypeError(f"it gave {type(row).__name__}, not a tuple")
        try:
            self._check(_plain(row))
        except Exception as error:
            raise TypeError(f"it gave {repr(row)}, which the new schema does not take: {error}") from error
        return row

    def converge(self) -> bool:
        """Move what is old of the key that is being handled; whether nothing is left.

        Raises ConversionError, unless it quarantines.
        """
        return self._cell.converge(self._copies, _WHOLE)

    def clear(self) -> None:
        self._cell.delete(self._copies, _WHOLE)

    @property
    def progress(self) -> Progress:
        """Of this partition in this batch. Of the old values that are left it knows those that could not be moved."""
        return self._cell.progress(len(self._cell.rejects))

    def rejects(self) -> list[tuple[bytes, str]]:
        """(grouping key and name, reason) of the old values that `converge` had to leave, by key."""
        return sorted(self._cell.rejects.items())


class DualValue(_Dual):
    """In the place of a ValueState."""

    @staticmethod
    def _declare(handle: _Handle, arguments: Variable) -> _State:
        state = handle.getValueState(*arguments)
        return _State(state, state.get, state.exists, state.update, state.clear)

    def exists(self) -> bool:
        return self._cell.exists(self._copies, _WHOLE)

    def get(self) -> Row | None:
        return _or_none(self._cell.get(self._copies, _WHOLE))

    def update(self, newValue: Row) -> None:
        self._cell.put(self._copies, _WHOLE, newValue)


class DualList(_Dual):
    """In the place of a ListState. A list moves whole, before it grows."""

    _left_out = 0
    """Elements that the last conversion dropped; of a list that it dropped whole, the cell counts one."""

    @staticmethod
    def _declare(handle: _Handle, arguments: Variable) -> _State:
        state = handle.getListState(*arguments)

        def read() -> Iterator[Row] | None:
            rows = state.get()
            first = next(rows, None)
            return None if first is None else chain([first], rows)

        return _State(state, read, state.exists, state.put, state.clear)

    def _converted(self, old: Iterator[Row]) -> list[Row] | None:
        convert = super()._converted
        rows = [convert(row) for row in old]
        kept = [row for row in rows if row is not None]
        self._left_out = len(rows) - max(len(kept), 1)
        return kept if kept and (self._may_drop or len(kept) == len(rows)) else None

    def exists(self) -> bool:
        return self._new.exists() or self._cell.exists(self._copies, _WHOLE)

    def get(self) -> Iterator[Row]:
        rows = self._cell.get(self._copies, _WHOLE)
        return iter(() if rows is MISSING else rows)

    def put(self, newState: list[Row]) -> None:
        self._cell.put(self._copies, _WHOLE, newState)

    def appendValue(self, newState: Row) -> None:
        self._move()
        self._new.appendValue(newState)

    def appendList(self, newState: list[Row]) -> None:
        self._move()
        self._new.appendList(newState)

    def converge(self) -> bool:
        self._left_out = 0
        if is_gone := super().converge():
            self._cell.counts["dropped"] += self._left_out
        return is_gone

    def _move(self) -> None:
        if self._copies.has_old(_WHOLE) and not self.converge():
            self.get()  # raises what keeps it: new elements would hide it


class DualMap(_Dual):
    """In the place of a MapState, whose keys stay as they are."""

    _schemas = 2

    @staticmethod
    def _declare(handle: _Handle, arguments: Variable) -> _State:
        state = handle.getMapState(*arguments)
        return _State(state, state.getValue, state.containsKey, state.updateValue, state.removeKey)

    def exists(self) -> bool:
        if self._new.exists():
            return True
        return any(True for _ in self._only_old()) if self._may_drop else self._old.exists()

    def getValue(self, key: Row) -> Row | None:
        return _or_none(self._cell.get(self._copies, (key,)))

    def containsKey(self, key: Row) -> bool:
        return self._cell.exists(self._copies, (key,))

    def updateValue(self, key: Row, value: Row) -> None:
        self._cell.put(self._copies, (key,), value)

    def iterator(self) -> Iterator[tuple[Row, Row]]:
        only_old = list(self._only_old())  # before the new ones: a caller that updates while it iterates moves them
        yield from self._new.iterator()
        yield from only_old

    def keys(self) -> Iterator[Row]:
        return (key for key, _ in self.iterator())

    def values(self) -> Iterator[Row]:
        return (value for _, value in self.iterator())

    def removeKey(self, key: Row) -> None:
        self._cell.delete(self._copies, (key,))

    def clear(self) -> None:
        for key in list(self._old.keys()):
            self._cell.delete(self._copies, (key,))
        self._old.clear()
        self._new.clear()

    def converge(self) -> bool:
        return all([self._cell.converge(self._copies, (key,)) for key in list(self._old.keys())])

    def _only_old(self) -> Iterator[tuple[Row, Row]]:
        for key in list(self._old.keys()):
            if not self._new.containsKey(key) and (value := self.getValue(key)) is not None:
                yield key, value


def _or_none(value: Row | Missing) -> Row | None:
    return None if value is MISSING else value


def _checker(schema: Any, state: object) -> Callable[[Any], object]:  # noqa: ANN401 - a text, or PySpark's StructType
    """What raises for a row that is not of the schema, of which PySpark would write null, or a part.

    Of a text PySpark's handle knows the parsed schema; TwsTester's does not, and writes rows as they are.
    """
    for name in ("_valueStateClient", "_listStateClient", "_mapStateClient"):
        if (client := getattr(state, name, None)) is not None:
            schema = client.value_schema if name == "_mapStateClient" else client.schema
    if isinstance(schema, str):
        return lambda row: None
    makers = (getattr(sys.modules[each.__module__], "_make_type_verifier", None) for each in type(schema).__mro__)
    if (make := next(filter(None, makers), None)) is None:
        raise _untested("check a row")
    verify: Callable[[Any], object] = make(schema)
    return verify


def _plain(value: Any) -> Any:  # noqa: ANN401 - of a row
    """As PySpark takes values of numpy and pandas."""
    for name in ("tolist", "to_pydatetime", "to_pytimedelta"):
        if hasattr(value, name):
            return getattr(value, name)()
    if isinstance(value, list | tuple):
        return [*map(_plain, value)]
    return {_plain(key): _plain(each) for key, each in value.items()} if isinstance(value, dict) else value


def _tell_grouping_keys(handle: _Handle, begin: Callable[[object], None]) -> None:
    """Have `begin` called with each grouping key before it is handled: PySpark has no public way to ask for it.

    Raises RefusedError where PySpark has another way.
    """
    client = getattr(handle, "_statefulProcessorApiClient", None)
    # Without a client it is TwsTester's handle.
    owner, name = (handle, "setGroupingKey") if client is None else (client, "set_implicit_key")
    tell = getattr(owner, name, None)
    if tell is None:
        raise _untested("say which key it handles")

    def telling(grouping_key: object) -> None:
        begin(grouping_key)
        tell(grouping_key)

    setattr(owner, name, telling)


def _untested(what: str) -> RefusedError:
    return RefusedError(f"this PySpark does not {what}", hint="4.1 to 4.3 are tested; keep the old code on others")
