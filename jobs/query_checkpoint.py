"""What a streaming query's checkpoint says: how far it is, what it reads, and which state variables it has.

`offsets/<batch>` is written before a batch and `commits/<batch>` after it. The former has lines: "v1", the metadata in
JSON, then the offset of each source in JSON; a source of files counts its logs in `sources/<number>`, whose lines name
the files, and one of Kafka has its topics. Checkpoints lie wherever Spark reads files.
"""

from __future__ import annotations

import gzip
import json
import re
import uuid
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.session import file_names, write_whole
from migrate.errors import RefusedError

_MARKERS = "stateferry-sweep-"
"""So begin the names of files with markers, 32 digits follow."""
_UNWRITTEN = (".parquet", ".orc", ".avro", ".bz2", ".zst", ".lz4", ".snappy", ".deflate", ".xz", ".zip")
"""So end the names of files that are no lines of text, or that are compressed in another way than gzip's."""


@dataclass(frozen=True)
class Directory:
    """A directory that the query reads files of."""

    path: str
    suffix: str
    """Of its files."""
    number: int
    """The source's."""

    def write(self, spark: SparkSession, markers: list[bytes]) -> None:
        """Add a file with a marker in each line, which appears as a whole."""
        content = b"".join(marker + b"\n" for marker in markers)
        if self.suffix.lower().endswith(".gz"):
            content = gzip.compress(content)
        write_whole(spark.sparkContext, self.path, f"{_MARKERS}{uuid.uuid4().hex}{self.suffix}", content)


@dataclass(frozen=True)
class QueryCheckpoint:
    """A checkpoint, as it was when it was first asked."""

    spark: SparkSession
    path: str

    @cached_property
    def position(self) -> tuple[int, int]:
        """The last batch that was begun, and the last one that was committed. Raises RefusedError without one."""
        odd = re.search(r"[\s\[\]{}*?]", self.path if ":" in self.path else str(Path(self.path).absolute()))
        if odd:
            raise RefusedError(
                f"Spark cannot read state by a path with {odd[0]!r}: {self.path}",
                hint="give a symbolic link to the checkpoint, whose path has no such character",
            )
        begun, committed = (self._last(name) for name in ("offsets", "commits"))
        if begun < 0 or committed < 0:
            raise RefusedError(
                f"{self.path} is not the checkpoint of a query that has committed a batch",
                hint="give the checkpointLocation of the query, after a run of it",
            )
        return begun, committed

    @cached_property
    def _offsets(self) -> list[Any]:
        return self._offsets_of(self.position[0])

    def _offsets_of(self, batch: int) -> list[Any]:
        """The metadata of a batch, then the offsets of its sources."""
        text = self.spark.read.format("binaryFile").load(f"{self.path}/offsets/{batch}").head()
        version, *lines = bytes(text["content"]).decode().splitlines() if text else [""]
        if version != "v1":
            raise RefusedError(
                f"the offsets of {self.path} are of version {version}, not v1",
                hint="Spark 4.1 to 4.3 write v1 unless spark.sql.streaming.queryEvolution.enableSourceEvolution is on",
            )
        try:
            return [json.loads(line) if line != "-" else None for line in lines]
        except ValueError as error:
            raise RefusedError(
                f"the offsets of batch {batch} in {self.path} are damaged: {error}",
                hint="the query cannot go on from them either: restore its checkpoint",
            ) from error

    @property
    def watermark_ms(self) -> int:
        """0: the query has none."""
        return int(self._offsets[0]["batchWatermarkMs"])

    @cached_property
    def sources(self) -> dict[str, Directory | None]:
        """What the query reads, by name; None: a topic."""
        found: dict[str, Directory | None] = {}
        for number, offsets in enumerate(self._offsets[1:]):
            known = offsets if isinstance(offsets, dict) else {}
            found |= {topic: None for topic, each in known.items() if isinstance(each, dict)}
            if "logOffset" in known:
                logged, path = self._logged(number), F.get_json_object("value", "$.path")
                folder, name = F.regexp_replace(path, "/[^/]*$", ""), F.regexp_extract(path, "[^/]*$", 0)
                for row in logged.groupBy(folder.alias("folder")).agg(F.max(name).alias("name")).collect():
                    suffix = "".join(PurePosixPath(unquote(row["name"])).suffixes[-2:])
                    found[_plain(row["folder"])] = Directory(_plain(row["folder"]), suffix, number)
        return found

    def source(self, to: str) -> Directory | None:
        """The directory of that name among what the query reads; None: it is a topic. Raises RefusedError."""
        name = to if to in self.sources else _plain(to)
        if name not in self.sources:
            known = ", ".join(sorted(self.sources)[:5]) or "no files and no topic"
            raise RefusedError(
                f"{to} is no source of this query, which reads {known}",
                hint="Spark takes no second source: name its topic, or the directory of a file that it has read",
            )
        directory = self.sources[name]
        if directory is not None and directory.suffix.lower().endswith(_UNWRITTEN):
            raise RefusedError(
                f"the files in {to} cannot be written as lines of text: {directory.suffix}",
                hint="write the markers with a program of yours; `--to` takes lines of JSON, CSV or text, plain or .gz",
            )
        return directory

    def unread(self, directory: Directory) -> int:
        """Files of markers in it that are in no committed batch: the query will read them."""
        offsets = self._offsets_of(self.position[1])[1 + directory.number]
        begun = int(offsets["logOffset"]) if offsets else -1
        name = F.regexp_extract(F.get_json_object("value", "$.path"), f"{_MARKERS}[0-9a-f]{{32}}", 0)
        logged = self._logged(directory.number).where(F.get_json_object("value", "$.batchId").cast("long") <= begun)
        read = {row["name"] for row in logged.select(name.alias("name")).distinct().collect()}
        there = file_names(self.spark.sparkContext, directory.path, f"{_MARKERS}*")
        return sum(each[: len(_MARKERS) + 32] not in read for each in there)

    def _logged(self, number: int) -> DataFrame:
        """A line in JSON for each file that a source has read, or is to read in a batch that was begun."""
        return self.spark.read.text(f"{self.path}/sources/{number}").where("value like '{%'")

    def operator(self, variable: str, operator: int | None = None) -> int:
        """The one that has that state variable, or `operator`. Raises RefusedError without one, and with several."""
        operators = self.spark.read.format("state-metadata").load(self.path).collect()
        variables = {
            row["operatorId"]: [each["stateName"] for each in json.loads(row["operatorProperties"])["stateVariables"]]
            for row in operators
            if "stateVariables" in (row["operatorProperties"] or "") and operator in (None, row["operatorId"])
        }
        having = [operator for operator, names in variables.items() if variable in names]
        if len(having) > 1:
            raise RefusedError(
                f"{variable} is a state variable of the operators {', '.join(map(str, sorted(having)))}",
                hint="sweep each with --operator",
            )
        if not having:
            what = "this query" if operator is None else f"operator {operator}"
            names = sorted(name for each in variables.values() for name in each if not name.startswith("$"))
            raise RefusedError(
                f"{variable} is no state variable of {what}, which has {', '.join(names) or 'none'}",
                hint="name the old variable as `init` does; after `deleteIfExists` of it, nothing is left to sweep",
            )
        return int(having[0])

    def old_keys(self, variable: str, operator: int) -> DataFrame:
        """The grouping keys that have that state variable."""
        reader = self.spark.read.format("statestore").option("stateVarName", variable)
        return reader.option("operatorId", operator).option("batchId", self.position[1]).load(self.path)

    def is_newest(self, variable: str, operator: int) -> bool:
        """Whether others are older and none is newer, by what Spark noted for each batch that it still knows.

        False where it noted nothing.
        """
        names: dict[int, set[str]] = {}
        try:
            noted = self.spark.read.text(f"{self.path}/state/{operator}/_metadata/v2", wholetext=True)
        except PySparkException:
            return False
        for row in noted.select("_metadata.file_name", "value").collect():
            known = json.loads(json.loads(row["value"].partition("\n")[2])["operatorPropertiesJson"])
            names[int(row["file_name"])] = {each["stateName"] for each in known["stateVariables"]}
        first = min((batch for batch in names if variable in names[batch]), default=-1)
        older = set[str]().union(*(names[batch] for batch in names if batch < first))
        return bool(older) and set[str]().union(*names.values()) == older | names[first]

    def _last(self, name: str) -> int:
        try:
            files = self.spark.read.format("binaryFile").load(f"{self.path}/{name}").select("path").collect()
        except PySparkException:  # there is no such directory
            return -1
        return max((int(found[0]) for file in files if (found := re.search(r"\d+$", file["path"]))), default=-1)


def _plain(path: str) -> str:
    """One spelling of a directory: a path of this machine without its links, or a URI."""
    parts = urlsplit(path)
    if parts.scheme not in ("", "file"):
        return path.rstrip("/")
    return str(Path(unquote(parts.path) if parts.scheme else path).expanduser().resolve())
