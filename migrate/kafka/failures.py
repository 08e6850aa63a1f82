"""What a client of Kafka's reports, as an error with a sentence that says what to do next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from migrate.errors import MigrationError
from migrate.kafka.connection import Connection

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

_REACH = "check [changelog] bootstrap, that the broker runs, and the security properties in [changelog] config"
_LOGIN = "check the user, the password and the certificates in [changelog] config"
_TOPIC = "check the topic and the application's id in [changelog]; `stateferry plan` names the topics it looks for"
_RIGHTS = "let the user of [changelog] config do this; docs/changelogs.md lists the rights that each way needs"
_FENCED = "another attempt took over, or a new one of the application did: let it end, then run the same command again"
_SIZE = "raise the topic's max.message.bytes (and the broker's message.max.bytes), then run the same command again"
_GROUP = "stop every instance of the application; one that was killed stays a member until its session.timeout.ms ends"
_REPLICAS = "bring back the brokers that the topic's min.insync.replicas needs, then run the same command again"
_WAIT = "an application's transaction is still open: wait until its transaction.timeout.ms ends, or use --fence"
_GONE = "the broker removed these records (retention.ms, retention.bytes): take a new snapshot of the store"

_HINTS = {
    _REACH: "_TRANSPORT _ALL_BROKERS_DOWN _RESOLVE _TIMED_OUT _TIMED_OUT_QUEUE _MSG_TIMED_OUT REQUEST_TIMED_OUT _STATE",
    _LOGIN: "_AUTHENTICATION _SSL SASL_AUTHENTICATION_FAILED UNSUPPORTED_SASL_MECHANISM",
    _TOPIC: "UNKNOWN_TOPIC_OR_PART _UNKNOWN_TOPIC _UNKNOWN_PARTITION UNKNOWN_TOPIC_ID",
    _RIGHTS: "TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED "
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    _FENCED: "_FENCED PRODUCER_FENCED INVALID_PRODUCER_EPOCH",
    _SIZE: "MSG_SIZE_TOO_LARGE INVALID_MSG_SIZE",
    _GROUP: "NON_EMPTY_GROUP UNKNOWN_MEMBER_ID",
    _REPLICAS: "NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    _WAIT: "UNSTABLE_OFFSET_COMMIT CONCURRENT_TRANSACTIONS",
    _GONE: "OFFSET_OUT_OF_RANGE _AUTO_OFFSET_RESET",
}
_HINT_OF = {name: hint for hint, names in _HINTS.items() for name in names.split()}
_OTHERWISE = "see the broker's log; then run the same command again"
_CAUSES = ("_AUTHENTICATION", "_SSL", "_RESOLVE", "_TRANSPORT")
"""What a client reports beside a request that only timed out, the most telling first."""


@dataclass(slots=True)
class Failures:
    """Makes errors of a kind for one client, whose `error_cb` is `seen`."""

    connection: Connection
    kind: type[MigrationError]
    _seen: dict[str, KafkaError] = field(default_factory=dict)

    def seen(self, error: KafkaError) -> None:
        """Keep what the client reports beside its requests."""
        self._seen[error.name()] = error

    @contextmanager
    def explained(self, doing: str) -> Iterator[None]:
        """Raises what Kafka's client raises inside as an error of the kind; `doing`: "read topic orders"."""
        from confluent_kafka import KafkaException

        try:
            yield
        except KafkaException as error:
            raise self.error(error.args[0], doing) from None

    def error(self, error: KafkaError, doing: str) -> MigrationError:
        """The error of the kind."""
        hint = _HINT_OF.get(error.name(), _OTHERWISE)
        causes = (self._seen[name] for name in _CAUSES if name in self._seen)
        cause = next(causes, None) if hint == _REACH else None
        if cause is not None:
            hint = _HINT_OF[cause.name()]
        text = ", ".join(each.str() for each in (error, cause) if each is not None)
        place = self.connection.bootstrap
        return self.kind(self.connection.masked(f"cannot {doing} at {place}: {text}"), hint=hint)
