"""Makes state directories with the stores of a few operators of the DSL, which are not migrated so far."""

from pathlib import Path
from typing import Final

from tests.live.kafka_streams import program

EMIT_FINAL_WINDOW: Final = "emit-final-window"
EMIT_FINAL_SLIDING_WINDOW: Final = "emit-final-sliding-window"  # has an index
EMIT_FINAL_SESSION: Final = "emit-final-session"  # has an index
OUTER_JOIN: Final = (
    "outer-join"  # `<store>-outer-{this,other}-join-store` and the list store `<store>-outer-shared-join-store`
)
FOREIGN_KEY: Final = "foreign-key"  # `<store>-subscription-store` among others

TOPOLOGIES: Final = (EMIT_FINAL_WINDOW, EMIT_FINAL_SLIDING_WINDOW, EMIT_FINAL_SESSION, OUTER_JOIN, FOREIGN_KEY)


def make_dsl_state(version: str, app_dir: Path, *, topology: str, store: str, headers: bool = False) -> dict[str, Path]:
    """Make task 0_0 of a topology; return its stores and the directory of each, or of its segments.

    With `headers` (4.3.1 only) the stores are made as `dsl.store.format=HEADERS` makes them.
    """
    if app_dir.exists():
        raise FileExistsError(f"{app_dir} exists already")
    app_dir.parent.mkdir(parents=True, exist_ok=True)
    options = {"--app-dir": str(app_dir.resolve()), "--topology": topology, "--store": store}
    if headers:
        options["--format"] = "HEADERS"
    program.run_program(version, "make-dsl", options)
    task = app_dir / "0_0"
    single = task / "rocksdb"
    stores = list(single.iterdir()) if single.is_dir() else []
    stores += [path for path in task.iterdir() if path.is_dir() and path != single]
    return {path.name: path for path in sorted(stores)}
