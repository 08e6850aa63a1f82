"""All systems. A new one is one module and one line here."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from formats import Format, UnknownFormatError, get_format
from migrate.errors import SpecError
from migrate.stores.regular_files import Folder
from migrate.systems.base import System
from migrate.systems.faust import FAUST
from migrate.systems.kafka_streams import KAFKA_STREAMS
from migrate.systems.quix_streams import QUIX
from migrate.systems.standalone import STANDALONE
from migrate.systems.streamiz import STREAMIZ

SYSTEMS = [KAFKA_STREAMS, STREAMIZ, FAUST, QUIX, STANDALONE]


def known_format(format_id: str, around: Path | None = None) -> Format:
    """The format of this id. Raises SpecError with the most similar ids, of the system of the directory `around`."""
    owner = None if around is None else owner_around(around.absolute())
    try:
        return get_format(format_id, "" if owner is None else f"{owner[1].name}.")
    except UnknownFormatError as error:
        near = f"{', '.join(error.near)} are near; " if len(error.near) > 1 else ""
        raise SpecError(str(error), hint=f"{near}`stateferry formats` lists them all") from error


def get_system(name: str) -> System:
    """The system whose formats have this first part in their ids."""
    return next(system for system in SYSTEMS if system.name == name)


def system_of_application(folder: Folder) -> System | None:
    """The system of an application's directory; None: no name in it is known."""
    return next((system for system in SYSTEMS if system.discovery.recognises(folder)), None)


def owner_around(path: Path) -> tuple[Path, System] | None:
    """The application's directory that `path` belongs to, and its system: its own, or that of a task or a store."""
    for folder in (path, *path.parents[:5]):
        with suppress(OSError):
            system = system_of_application(Folder(folder))
            if system is not None and system.discovery.is_part(path.relative_to(folder)):
                return folder, system
    return None
