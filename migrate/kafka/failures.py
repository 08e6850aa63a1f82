"""What a client of Kafka's reports, as an error with a sentence that says what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from migrate.errors import MigrationError
from migrate.kafka.connection import Connection

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

REACH = "check [changelog] bootstrap, that the broker runs, and the security properties in [changelog] config"
LOGIN = "check the security.protocol, the user, the password and the certificates in [changelog] config"
RIGHTS = "let the user of [changelog] config do that; docs/changelogs.md lists the rights that each way needs"
NAME = "check the name of the topic, and [changelog] application_id"
TAKEN = "see whose it is; remove it if nobody needs it, or choose another [target] store"
FENCED = "another attempt took over: let it end, then run the same command again, which writes what is missing"
SIZE = "raise max.message.bytes of the topic (kafka-configs.sh --alter), then run the same command again"
MEMBERS = "stop every instance of the application; a killed one stays a member until its session.timeout.ms ends"
REPLICAS = "bring back the brokers that hold the topic's replicas, then run the same command again"
OPEN = "wait until the application's open transaction ends, or end it with --fence"
GONE = "the broker removed them (retention.ms, retention.bytes), or the topic was made anew"
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
    """Makes errors of a kind for one client, whose `error_cb` is `heed`."""

    connection: Connection
    kind: type[MigrationError]
    _seen: dict[str, KafkaError] = field(default_factory=dict)

    def heed(self, error: KafkaError) -> None:
        """Keep what the client reports beside its requests."""
        self._seen[error.name()] = error

    def forget(self) -> None:
        """The client gets on: what it reported is over."""
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
        except KafkaException as error:
            raise self.error(error.args[0], doing) from None

    def error(self, error: KafkaError, doing: str) -> MigrationError:
        """The error of the kind."""
        hint = _HINT_OF.get(error.name(), AGAIN)
        cause = self._first(_CAUSES) if hint == REACH else None
        if cause is not None:
            hint = _HINT_OF[cause.name()]
        reason = ", ".join(each.str() for each in (error, cause) if each is not None)
        text = f"cannot {doing} at {self.connection.bootstrap}: {reason}"
        return self.kind(self.connection.masked(text), hint=hint)

    def _first(self, names: Iterable[str]) -> KafkaError | None:
        return next((self._seen[name] for name in names if name in self._seen), None)
