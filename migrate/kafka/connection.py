"""How to reach a Kafka cluster: the brokers, and a file of librdkafka's properties.

Each line of the file is `key=value`, a comment that begins with `#`, or empty; `${NAME}` in a value stands for a
variable of the environment. Values are never shown.
"""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from migrate.errors import SpecError, explain_system_error
from migrate.library_messages import is_unknown_property

_VARIABLE = re.compile(r"\$\{(\w+)\}")
_SECRET = re.compile(r"password|secret|token|pem$|username|oauthbearer", re.IGNORECASE)
_BROKERS = ("bootstrap.servers", "metadata.broker.list")
_OURS = frozenset(
    (
        "acks",
        "allow.auto.create.topics",
        "auto.offset.reset",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.idempotence",
        "enable.partition.eof",
        "group.id",
        "isolation.level",
        "log_level",
        "logger",
        "request.required.acks",
        "transaction.timeout.ms",
        "transactional.id",
    )
)
"""Properties on which it depends that what is written and read is right."""
_SILENT = logging.Logger("stateferry.kafka")
_SILENT.disabled = True
"""Else clients write to standard error; what goes wrong is raised."""
_NAMES = "the names are librdkafka's, not those of Java's clients: see its CONFIGURATION.md"


@dataclass(frozen=True, slots=True)
class Connection:
    """Can be pickled, for tasks; neither `repr` nor `str` shows the properties."""

    bootstrap: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Values that no message may show."""

    def settings(self, more: Mapping[str, object]) -> dict[str, Any]:
        """What a client is made of."""
        return {
            "client.id": "stateferry",
            **self.properties,
            "bootstrap.servers": self.bootstrap,
            "allow.auto.create.topics": False,
            "logger": _SILENT,
            "log_level": 0,
            **more,
        }

    def is_reachable(self, seconds: float) -> bool:
        """Whether one of the brokers takes a connection within that time; whether it lets a client in is not asked."""
        for address in self.bootstrap.split(","):
            host, _, port = address.strip().rpartition("://")[2].rpartition(":")
            with suppress(OSError, ValueError), socket.create_connection((host.strip("[]"), int(port)), seconds):
                return True
        return False

    def masked(self, text: str) -> str:
        """A text of librdkafka's, without the secrets."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def read_connection(bootstrap: str, config: Path | None, environ: Mapping[str, str] = os.environ) -> Connection:
    """The connection to these brokers with the properties of this file, which librdkafka accepts.

    Raises:
        SpecError: The file cannot be read, or is wrong; names the line.
        MissingPackageError: The package confluent-kafka is not installed.
    """
    places: dict[str, str] = {}
    properties: dict[str, str] = {}
    secrets: list[str] = []
    for place, name, value in _properties(config) if config is not None else ():
        filled = _filled(value, place, environ)
        if filled != value or _SECRET.search(name):
            secrets.append(filled)
        places[name], properties[name] = place, filled
    connection = Connection(bootstrap, properties, tuple(sorted(filter(None, secrets), key=len, reverse=True)))
    _try(connection, places)
    return connection


def _properties(config: Path) -> Iterator[tuple[str, str, str]]:
    """The place, the name and the value of each."""
    try:
        lines = config.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise SpecError(f"{config} cannot be read: {reason}", hint="check [changelog] config") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        place = f"{config}, line {number}"
        if not equals or not name:
            raise SpecError(f"{place}: not a line of the form key=value", hint=_NAMES)
        if name in _BROKERS:
            raise SpecError(f"{place}: {name} has no place here", hint="name the brokers in [changelog] bootstrap")
        if name in _OURS or name.endswith("_cb"):
            raise SpecError(f"{place}: {name} cannot be chosen", hint="remove the line")
        yield place, name, value


def _filled(value: str, place: str, environ: Mapping[str, str]) -> str:
    for name in _VARIABLE.findall(value):
        if name not in environ:
            raise SpecError(f"{place}: the environment has no variable {name}", hint=f"export {name}, then run again")
    return _VARIABLE.sub(lambda found: environ[found[1]], value)


def _try(connection: Connection, places: Mapping[str, str]) -> None:
    """Make a client, which connects in the background, and drop it."""
    try:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient
    except ModuleNotFoundError as error:
        raise explain_system_error(error) or error from error
    try:
        AdminClient(connection.settings({}))
    except KafkaException as error:
        reason = connection.masked(error.args[0].str().strip())
    else:
        return
    for name, place in places.items():  # one by one: of an alias, the message has the other name
        try:
            AdminClient(Connection(connection.bootstrap, {name: connection.properties[name]}).settings({}))
        except KafkaException as error:
            if is_unknown_property(text := error.args[0].str()):
                raise SpecError(f"{place}: librdkafka has no property {name}", hint=_NAMES) from None
            if not text.startswith("Failed to create"):  # alone it may lack another one
                raise SpecError(f"{place}: {name} cannot have this value", hint=_NAMES) from None
    raise SpecError(f"librdkafka refuses the properties of [changelog] config: {reason}", hint=_NAMES)
