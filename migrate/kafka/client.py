"""A client that asks a Kafka cluster, and waits for its answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from migrate.errors import BrokerError, MigrationError
from migrate.kafka.connection import Connection
from migrate.kafka.failures import AGAIN, Failures

if TYPE_CHECKING:
    from confluent_kafka import Producer, TopicPartition

REACH_SECONDS = 10.0
"""A broker that does not answer a first question within this time is not there."""
REQUEST_SECONDS = 30.0
"""The broker has so long to answer a request."""
_SHORTEST_SECONDS = 1.0
_ACCEPTED_SECONDS: dict[str, float] = {}
"""How long transactions may be at brokers that refused longer ones to this process, which tries those no more."""
_WITHIN_A_TRANSACTION = {"delivery.timeout.ms", "message.timeout.ms", "socket.timeout.ms"}
"""librdkafka makes no producer for which they are longer than a transaction may be."""
_Asked = TypeVar("_Asked")
_Answer = TypeVar("_Answer")
_POLL_SECONDS = 0.2
_NOT_YET = ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "UNSTABLE_OFFSET_COMMIT")
"""What a broker answers about groups while it starts, when another one has just taken them over, and while offsets are
being committed in a transaction."""


class Client:
    """A context manager, which ends where the broker cannot be reached. Every method raises an error of the kind."""

    def __init__(self, connection: Connection, kind: type[MigrationError] = BrokerError) -> None:
        from confluent_kafka.admin import AdminClient

        self.connection = connection
        self._failures = Failures(connection, kind)
        with self._failures.explained("connect"):
            # By a name of its own: the requests of one that is dropped hang, or fail.
            self._admin = AdminClient(connection.settings({"error_cb": self._failures.heed}))

    def __enter__(self) -> Self:
        with self._failures.explained("reach the broker"):
            self._answer(self._admin.describe_cluster(request_timeout=REACH_SECONDS))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del self._admin

    def _ask(
        self, doing: str, request: Callable[..., Mapping[Any, Future[_Answer]]], about: object, **more: object
    ) -> _Answer:
        """The answer to a request about one thing."""
        (answer,) = self._ask_all(doing, request, about, more).values()
        return answer

    def _ask_all(
        self,
        doing: str,
        request: Callable[..., Mapping[_Asked, Future[_Answer]]],
        about: object,
        more: Mapping[str, object],
        absent: int | None = None,
    ) -> dict[_Asked, _Answer]:
        """The answers to a request; without those that the broker refuses with the code `absent`."""
        from confluent_kafka import KafkaException

        found = {}
        with self._failures.explained(doing):
            for asked, answer in request(about, request_timeout=REQUEST_SECONDS, **more).items():
                try:
                    found[asked] = self._answer(answer)
                except KafkaException as error:
                    if error.args[0].code() != absent:
                        raise
        return found

    def _ask_coordinator(
        self, doing: str, request: Callable[..., Mapping[Any, Future[Any]]], group: object, **more: object
    ) -> Any:  # noqa: ANN401 - as many kinds of answers as requests
        """The answer to a request about one group."""
        with self._failures.explained(doing):
            return self._coordinated(request, group, **more)

    def _coordinated(self, request: Callable[..., Mapping[Any, Future[Any]]], group: object, **more: object) -> Any:  # noqa: ANN401
        """The same, or KafkaException; a coordinator that cannot answer yet is asked again."""
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + REQUEST_SECONDS
        while True:
            try:
                (asked,) = request([group], request_timeout=REQUEST_SECONDS, **more).values()
                answer = self._answer(asked)
                _check(getattr(answer, "topic_partitions", ()))
            except KafkaException as error:
                if error.args[0].name() not in _NOT_YET or time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_SECONDS)
            else:
                return answer

    def _answer(self, asked: Future[_Answer]) -> _Answer:
        from confluent_kafka import KafkaException

        while True:
            try:
                answer = asked.result(_POLL_SECONDS)
            except TimeoutError:
                self._admin.poll(0)
                if refused := self._failures.refused():
                    raise KafkaException(refused) from None
            else:
                self._failures.forget()
                return answer

    def _awaited(self, look: Callable[[], _Answer | None], otherwise: str) -> _Answer:
        deadline = time.monotonic() + REQUEST_SECONDS
        while (found := look()) is None:
            if time.monotonic() > deadline:
                raise self._failures.kind(f"{otherwise} after {REQUEST_SECONDS:.0f} s", hint=AGAIN)
            time.sleep(0.05)
        return found


def take_over(
    connection: Connection,
    failures: Failures,
    transactional_id: str,
    patience: float = REQUEST_SECONDS,
    more: Mapping[str, object] = MappingProxyType({}),
) -> tuple[Producer, float]:
    """A producer of this id, and after how many seconds the broker ends a transaction that it leaves open.

    No earlier producer of the id can write any more, and the transaction that it left open is ended. A broker that
    allows no transactions as long as `patience` (transaction.max.timeout.ms) gets ever shorter ones: users may try
    that, and few may ask for the setting.
    """
    from confluent_kafka import KafkaException, Producer

    seconds = min(patience, _ACCEPTED_SECONDS.get(connection.bootstrap, patience))
    while True:
        ours = {**more, "transactional.id": transactional_id, "error_cb": failures.heed}
        settings = connection.settings({**ours, "transaction.timeout.ms": int(seconds * 1000)})
        for name in _WITHIN_A_TRANSACTION & settings.keys():
            settings[name] = min(int(settings[name]), int(seconds * 1000) - 100)
        producer = Producer(settings)
        try:
            producer.init_transactions(patience)
        except KafkaException as error:
            if error.args[0].name() != "INVALID_TRANSACTION_TIMEOUT" or seconds <= _SHORTEST_SECONDS:
                raise
            seconds = _ACCEPTED_SECONDS[connection.bootstrap] = max(seconds / 2, _SHORTEST_SECONDS)
        else:
            return producer, seconds


def _check(partitions: Iterable[TopicPartition]) -> None:
    from confluent_kafka import KafkaException

    for each in partitions:
        if each.error is not None:
            raise KafkaException(each.error)
