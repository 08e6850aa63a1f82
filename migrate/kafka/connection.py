"""How to reach a Kafka cluster: the brokers, and a file of librdkafka's properties; failures that say what to do next.

Each line of the file is `key=value`, a comment that begins with `#`, or empty; `${NAME}` in a value stands for a
variable of the environment. Values are never shown.
"""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from migrate.errors import MigrationError, SpecError, explain_system_error
from migrate.library_messages import do_not_fit_together, is_unknown_property

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

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
_BOOTSTRAP = "[changelog] bootstrap or --bootstrap"
_CONFIG = "[changelog] config or --config"
"""What names the brokers and the file: in a spec, and on a command line."""
_NAMES = "the names are librdkafka's, not those of Java's clients: see its CONFIGURATION.md"


@dataclass(frozen=True, slots=True)
class Connection:
    """Can be pickled, for tasks; neither `repr` nor `str` shows the properties."""

    bootstrap: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Values that no message may show."""

    def settings(self, more: Mapping[str, object]) -> dict[str, Any]:
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
        raise SpecError(f"{config} cannot be read: {reason}", hint=f"check {_CONFIG}") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        place = f"{config}, line {number}"
        if not equals or not name:
            raise SpecError(f"{place}: not a line of the form key=value", hint=_NAMES)
        if name in _BROKERS:
            raise SpecError(f"{place}: {name} has no place here", hint=f"name the brokers in {_BOOTSTRAP}")
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
            if not do_not_fit_together(text):  # alone it may lack another one
                raise SpecError(f"{place}: {name} cannot have this value", hint=_NAMES) from None
    raise SpecError(f"librdkafka refuses the properties of {_CONFIG}: {reason}", hint=_NAMES)


REACH = f"check {_BOOTSTRAP}, that the broker runs, and the security properties in {_CONFIG}"
LOGIN = f"check the security.protocol, the user, the password and the certificates in {_CONFIG}"
RIGHTS = f"let the user of {_CONFIG} do that; docs/changelogs.md lists the rights that each way needs"
NAME = "check the name of the topic, and [changelog] application_id"
TAKEN = "see whose it is; remove it if nobody needs it, or choose another [target] store"
FENCED = "another attempt took over: let it end, then run the same command again, which writes what is missing"
SIZE = "raise max.message.bytes of the topic (kafka-configs.sh --alter), then run the same command again"
MEMBERS = "stop every instance of the application; a killed one stays a member until its session.timeout.ms ends"
REPLICAS = "bring back the brokers that hold the topic's replicas, then run the same command again"
OPEN = "wait until the application's open transaction ends, or end it with --fence"
GONE = "the broker removed them (retention.ms, retention.bytes), or the topic was recreated"
AGAIN = "see the broker's log; then run the same command again"
_HINTS = {
    REACH: "_TRANSPORT _ALL_BROKERS_DOWN _RESOLVE _TIMED_OUT _TIMED_OUT_QUEUE _MSG_TIMED_OUT REQUEST_TIMED_OUT",
    LOGIN: "_AUTHENTICATION _SSL SASL_AUTHENTICATION_FAILED UNSUPPORTED_SASL_MECHANISM",
    RIGHTS: "TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED "
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    NAME: "UNKNOWN_TOPIC_OR_PART _UNKNOWN_TOPIC _UNKNOWN_PARTITION UNKNOWN_TOPIC_ID",
    TAKEN: "TOPIC_ALREADY_EXISTS",
    FENCED: "_FENCED PRODUCER_FENCED INVALID_PRODUCER_EPOCH",
    SIZE: "MSG_SIZE_TOO_LARGE INVALID_MSG_SIZE",
    MEMBERS: "NON_EMPTY_GROUP UNKNOWN_MEMBER_ID",
    REPLICAS: "NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND INVALID_REPLICATION_FACTOR",
    OPEN: "UNSTABLE_OFFSET_COMMIT CONCURRENT_TRANSACTIONS",
    GONE: "OFFSET_OUT_OF_RANGE _AUTO_OFFSET_RESET",
}
_HINT_OF = {name: hint for hint, names in _HINTS.items() for name in names.split()}
_CAUSES = ("_AUTHENTICATION", "_SSL", "_RESOLVE", "_TRANSPORT")
"""What a client reports beside a request that only times out, the most telling first."""


@dataclass(slots=True)
class Failures:
    """Makes errors of a kind for one client, whose `error_cb` is `on_error`."""

    connection: Connection
    kind: type[MigrationError]
    _seen: dict[str, KafkaError] = field(default_factory=dict)

    def on_error(self, error: KafkaError) -> None:
        """Keep what the client reports beside its requests."""
        self._seen[error.name()] = error

    def recovered(self) -> None:
        self._seen.clear()

    def refused(self) -> KafkaError | None:
        """Why the broker does not let the client in, however long that tries."""
        return self._first(_CAUSES[:2])

    def is_cut_off(self) -> bool:
        """Whether the client lost its connections and has not got on since."""
        return self._first(_CAUSES) is not None

    @contextmanager
    def explained(self, doing: str) -> Iterator[None]:
        """Raises what Kafka's client raises as an error of the kind; `doing`: "read topic orders"."""
        from confluent_kafka import KafkaException

        try:
            yield
        except KafkaException as raised:
            error: KafkaError = raised.args[0]
            hint = _HINT_OF.get(error.name(), AGAIN)
            cause = self._first(_CAUSES) if hint == REACH else None
            if cause is not None:
                hint = _HINT_OF[cause.name()]
            reason = ", ".join(each.str() for each in (error, cause) if each is not None)
            text = f"cannot {doing} at {self.connection.bootstrap}: {reason}"
            raise self.kind(self.connection.masked(text), hint=hint) from None

    def _first(self, names: Iterable[str]) -> KafkaError | None:
        return next((self._seen[name] for name in names if name in self._seen), None)
