"""Which hosts there are, which partitions each has, and which host answers for a key (`queryMetadataForKey`).

Hosts are stated in a file, or in texts like `10.0.0.1:7654=0,2`.

A file:

[[host]]
address = "10.0.0.1:7654"
active = [0, 2]                # partitions, of every store
standby = [1]

[[host]]
address = "10.0.0.2:7654"
active = [1]

[host.stores.customers]        # but of this store it has others
active = [0, 1]
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Protocol

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from formats.partitioners import Partitioner, default_partition
from migrate.errors import RefusedError, SpecError


@dataclass(frozen=True, slots=True, order=True)
class HostInfo:
    """A host and a port, as `application.server` names them."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> HostInfo:
        """The host of `HOST:PORT`. Raises SpecError for any other text."""
        host, _, port = text.strip().rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not host or not (port.isascii() and port.isdecimal() and 0 < int(port) < 1 << 16):
            raise SpecError(f"{text!r} is not HOST:PORT", hint="for example: 10.0.0.1:7654")
        return cls(host, int(port))


class Placement(Protocol):
    """Which host has which partition."""

    def active(self, store: str, partition: int) -> HostInfo | None:
        """The host that has the partition active; None: not known."""

    def standbys(self, store: str, partition: int) -> tuple[HostInfo, ...]:
        """The hosts with a standby of the partition, in a fixed order."""

    def hosts(self, store: str) -> tuple[HostInfo, ...]:
        """Every host that has an active partition of the store, in a fixed order."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    active: frozenset[Annotated[int, Field(ge=0)]] = frozenset()
    standby: frozenset[Annotated[int, Field(ge=0)]] = frozenset()


def _is_address(text: str) -> str:
    try:
        HostInfo.parse(text)
    except SpecError as error:
        raise ValueError(error.message) from error
    return text


class _Host(_Section):
    address: Annotated[str, AfterValidator(_is_address)]
    stores: dict[str, _Section] = {}

    def of(self, store: str) -> _Section:
        return self.stores.get(store, self)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    host: tuple[_Host, ...]


@dataclass(frozen=True, slots=True)
class StatedHosts:
    """The placement that a person states."""

    _hosts: tuple[_Host, ...]

    def active(self, store: str, partition: int) -> HostInfo | None:
        """The host that has the partition active; None: no host is stated for it."""
        return next((HostInfo.parse(each.address) for each in self._hosts if partition in each.of(store).active), None)

    def standbys(self, store: str, partition: int) -> tuple[HostInfo, ...]:
        """The hosts with a standby of the partition, as they are listed."""
        return tuple(HostInfo.parse(each.address) for each in self._hosts if partition in each.of(store).standby)

    def hosts(self, store: str) -> tuple[HostInfo, ...]:
        """The hosts with an active partition of the store, as they are listed."""
        return tuple(HostInfo.parse(each.address) for each in self._hosts if each.of(store).active)

    @property
    def listed(self) -> tuple[HostInfo, ...]:
        """Every host, whatever it has."""
        return tuple(HostInfo.parse(each.address) for each in self._hosts)


def read_hosts(file: Path) -> StatedHosts:
    """The hosts of a file.

    Args:
        file: a TOML file; docs/queries.md shows one.

    Raises:
        SpecError: it is not one, or two hosts have a partition active.
    """
    try:
        found = _File.model_validate(tomllib.loads(file.read_text(encoding="utf-8-sig")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SpecError(f"{file} cannot be read as TOML: {error}", hint=_HINT) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise SpecError(f"{file}: {where}: {first['msg']}", hint=_HINT) from error
    return _checked(found.host, f"{file}: ")


def stated_hosts(active: Iterable[str], standby: Iterable[str] = ()) -> StatedHosts:
    """The hosts of texts like `10.0.0.1:7654=0,2-5`: of every store, the partitions that each has.

    Args:
        active: the active partitions of each host.
        standby: those of which it has a standby.

    Raises:
        SpecError: another text, or two hosts have a partition active.
    """
    found: dict[str, dict[str, set[int]]] = {}
    for part, texts in (("active", active), ("standby", standby)):
        for text in texts:
            address, equals, listed = text.partition("=")
            if not equals or not all(map(_RANGE.fullmatch, listed.split(","))):
                raise SpecError(f"{text!r} is not HOST:PORT=PARTITIONS", hint="for example: 10.0.0.1:7654=0,2-5")
            own = found.setdefault(str(HostInfo.parse(address)), {}).setdefault(part, set())
            for low, _, high in (each.partition("-") for each in listed.split(",")):
                own.update(range(int(low), int(high or low) + 1))
    return _checked(tuple(_Host.model_validate({"address": each, **found[each]}) for each in found), "")


_HINT = "docs/queries.md shows a file of hosts"
_RANGE = re.compile(r"[0-9]{1,5}(-[0-9]{1,5})?")


def _checked(hosts: tuple[_Host, ...], where: str) -> StatedHosts:
    addresses = [each.address for each in hosts]
    for address in addresses:
        if addresses.count(address) > 1:
            raise SpecError(f"{where}{address} is listed twice", hint="list its partitions in one place")
    for store in ("", *sorted({name for each in hosts for name in each.stores})):
        active = [partition for each in hosts for partition in sorted(each.of(store).active)]
        for partition in active:
            if active.count(partition) > 1:
                what = f"partition {partition}" + (f" of {store}" if store else "")
                raise SpecError(f"{where}two hosts have {what} active", hint="one of them is a standby")
    return StatedHosts(hosts)


@dataclass(frozen=True, slots=True)
class KeyQueryMetadata:
    """Where a key is."""

    partition: int
    active: HostInfo | None
    """None: not known."""
    standbys: tuple[HostInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyRouter:
    """A router by the partitioner, and a placement that is read again for each question."""

    partitions: Mapping[str, int]
    """The number of partitions of each store's topics."""
    placement: Callable[[], Placement]
    me: HostInfo | None = None
    """This host; None: it has no address of its own."""
    partitioner: Partitioner = default_partition

    def key_metadata(self, store: str, key: bytes) -> KeyQueryMetadata:
        """Where a serialized key is. Raises RefusedError where the number of partitions is not known."""
        partition = self.partitioner(key, self._count(store))
        placement = self.placement()
        return KeyQueryMetadata(partition, placement.active(store, partition), placement.standbys(store, partition))

    def hosts(self, store: str) -> tuple[HostInfo, ...]:
        """Every host that has an active partition of the store, in a fixed order."""
        return self.placement().hosts(store)

    def active_partitions(self, store: str) -> frozenset[int] | None:
        """The partitions of the store that are active on this host; None: it is no host of several.

        Raises RefusedError where a partition is on no host that is known.
        """
        return None if self.me is None else self.active_by_host(store).get(self.me, frozenset())

    def active_by_host(self, store: str) -> Mapping[HostInfo | None, frozenset[int]]:
        """The active partitions of each host, each partition once; all with `me` where no hosts are known.

        Raises RefusedError where a partition is on no host that is known.
        """
        numbers = range(self._count(store))
        if self.me is None:
            return {None: frozenset(numbers)}
        placement = self.placement()
        active = [placement.active(store, number) for number in numbers]
        if None in active:
            raise RefusedError(
                f"no host is known that has partition {active.index(None)} of the store {store!r} active",
                hint="list it in the hosts; or wait until the application's group is stable",
            )
        return {host: frozenset(each for each in numbers if active[each] == host) for host in dict.fromkeys(active)}

    def _count(self, store: str) -> int:
        count = self.partitions.get(store)
        if count is None:
            raise RefusedError(
                f"how many partitions the store {store!r} has is not known: the directory of one host does not show it",
                hint="state it: --partitions N",
            )
        return count


def stated_router(
    hosts: StatedHosts | None, partitions: Mapping[str, int], me: HostInfo, partitioner: Partitioner = default_partition
) -> KeyRouter:
    """A router by these hosts, or of this host alone. Raises SpecError where they lack this host."""
    if hosts is None:
        return KeyRouter(partitions, lambda: StatedHosts(()), partitioner=partitioner)
    if me not in hosts.listed:
        listed = ", ".join(map(str, hosts.listed))
        raise SpecError(
            f"the hosts are {listed}: {me}, which this one is, is none of them",
            hint="add it, or say which one this is: --application-server HOST:PORT",
        )
    return KeyRouter(partitions, lambda: hosts, me, partitioner)
