"""The rights of a user at the secure listener."""

import time
from collections.abc import Mapping, Sequence

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.broker.broker import Broker

Rights = Mapping[tuple[str, str], Sequence[str]]
"""Operations by kind and name of a resource: ("TOPIC", "orders") to ["READ"]; a name that ends in * is a prefix."""


def allow(broker: Broker, rights: Rights) -> None:
    """Let the user "worker" do this, too."""
    acls = [
        AclBinding(
            ResourceType[kind],
            name.removesuffix("*"),
            ResourcePatternType.PREFIXED if name.endswith("*") else ResourcePatternType.LITERAL,
            "User:worker",
            "*",
            AclOperation[each],
            AclPermissionType.ALLOW,
        )
        for (kind, name), operations in rights.items()
        for each in operations
    ]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})  # by a name: the requests of one that is dropped fail
    for made in admin.create_acls(acls).values():
        made.result(30)
    time.sleep(0.5)  # the authorizer hears of it from the log
