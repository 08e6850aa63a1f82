"""Systems whose state cannot be migrated yet, recognised by the names of files and column families alone.

Spark        <checkpoint>/state/<operator>/<partition>/[<store>/]  <version>.zip|.changelog or .delta|.snapshot
Delta        <table>/_delta_log/<version>.json
RocksDB      a folder of its backup engine: meta/<number>, private/<number>/CURRENT, shared_checksum/*.sst
"""

from __future__ import annotations

import re
from contextlib import suppress

from migrate.errors import RefusedError
from migrate.stores.regular_files import Folder
from migrate.stores.rocksdb.unreadable import check_no_backup
from migrate.survey.applications import application_at
from migrate.survey.inspect_report import PlaceReport
from migrate.systems import STANDALONE, SYSTEMS

_SPARK_VERSION = re.compile(r"\d+(_[0-9a-f-]+)?\.(zip|changelog|delta|snapshot)")
_SPARK_LEVELS = ("state of one store partition", "state of one operator", "state of all operators")
_DELTA_VERSION = re.compile(r"\d{20}\.(json|checkpoint.*)")
_NOT_YET = "this version cannot migrate it"


def recognise(folder: Folder) -> PlaceReport | None:
    """The system whose directory it is, as a report; None: not known."""
    for known in (_backup, _without_application, _spark, _delta):
        with suppress(PermissionError):  # a directory below, which the walk reports when it comes to it
            if (place := known(folder)) is not None:
                return place
    return None


def holds_databases(place: PlaceReport) -> bool:
    """Whether RocksDB directories may lie below."""
    return place.system not in ("spark", "delta")


def _backup(folder: Folder) -> PlaceReport | None:
    try:
        check_no_backup(folder.path)
    except RefusedError as error:
        return PlaceReport(path=folder.path, system=STANDALONE.name, sentence=f"{error.message}; next: {error.hint}")
    return None


def _without_application(folder: Folder) -> PlaceReport | None:
    system = next((each for each in SYSTEMS if each.discovery.holds_applications(folder)), None)
    if system is None or any(application_at(folder.inside(name)) is not None for name in folder.folders):
        return None  # the walk reports the applications when it comes to them
    sentence = f"{system.title}: a state directory without an application"
    return PlaceReport(path=folder.path, system=system.name, sentence=sentence)


def _spark(folder: Folder) -> PlaceReport | None:
    if {"state", "offsets", "commits"} <= {*folder.folders} and _spark_level(folder.inside("state")) is not None:
        what, state = "a query's checkpoint", folder.inside("state")
    elif (level := _spark_level(folder)) is not None:
        what, state = _SPARK_LEVELS[level], folder
    else:
        return None
    sentence = f"Spark Structured Streaming: {what}, {_provider(state)}; {_NOT_YET}"
    return PlaceReport(path=folder.path, system="spark", sentence=sentence)


def _spark_level(folder: Folder, level: int = 0) -> int | None:
    """The number of levels of numbered directories between this one and the version files; None: no such files."""
    if _version_files(folder):
        return level
    if level == len(_SPARK_LEVELS) - 1:
        return None
    below = [folder.inside(name) for name in folder.folders if name.isdecimal()]
    return next((found for inside in below if (found := _spark_level(inside, level + 1)) is not None), None)


def _version_files(folder: Folder) -> list[str]:
    """The version files of a store partition: of the default store, which lie here, and of stores in directories."""
    found = [name for name in folder.files if _SPARK_VERSION.fullmatch(name)]
    if found or not folder.path.name.isdecimal():
        return found
    named = [folder.inside(name) for name in folder.folders if not name.isdecimal() and not name.startswith("_")]
    return [name for store in named for name in store.files if _SPARK_VERSION.fullmatch(name)]


def _provider(folder: Folder) -> str:
    endings = {name.rpartition(".")[2] for name in _all_version_files(folder)}
    if endings <= {"zip", "changelog"}:
        return "kept by its RocksDB state store provider"
    if endings <= {"delta", "snapshot"}:
        return "kept by its HDFS state store provider"
    return "kept by both of its state store providers, which is ambiguous"


def _all_version_files(folder: Folder) -> list[str]:
    below = [folder.inside(name) for name in folder.folders if name.isdecimal()]
    return _version_files(folder) + [name for inside in below for name in _all_version_files(inside)]


def _delta(folder: Folder) -> PlaceReport | None:
    if "_delta_log" not in folder.folders:
        return None
    if not any(_DELTA_VERSION.fullmatch(name) for name in folder.inside("_delta_log").files):
        return None
    return PlaceReport(path=folder.path, system="delta", sentence=f"a Delta table, {_NOT_YET}")
