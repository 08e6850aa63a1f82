"""The program that is traced: one verb of the library, with nothing around it.

`python -m tests.durability.program SPEC EVENTS VERB [BROKEN ...]`: each event is written to the file EVENTS; each
BROKEN is the dotted name of a function of this code base that then does nothing.
"""

import importlib
import os
import sys
from pathlib import Path

import migrate
from migrate.model.events import Event
from migrate.spec.spec import load_spec


def disable(dotted: str) -> None:
    """The function does nothing from now on. `dotted` is where its caller finds it, as in
    `migrate.batch.ledger.table:Ledger.commit`.
    """
    module, _, attributes = dotted.partition(":")
    owner: object = importlib.import_module(module)
    *inner, last = attributes.split(".")
    for name in inner:
        owner = getattr(owner, name)
    assert callable(getattr(owner, last)), dotted
    setattr(owner, last, lambda *_, **__: None)


def main(spec: str, events: str, verb: str, *broken: str) -> None:
    """Run one verb."""
    for dotted in broken:
        disable(dotted)
    descriptor = os.open(events, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def listener(event: Event) -> None:
        os.write(descriptor, event.name.encode())

    getattr(migrate, verb)(load_spec(Path(spec)), on_event=listener)


if __name__ == "__main__":
    main(*sys.argv[1:])
