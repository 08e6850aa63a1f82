"""The verbs that show what stores hold: get, export, serve; and the options of `serve` on which host has what."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from migrate.cli.command import spec_verb, verb
from migrate.cli.options import complete_formats, current_output
from migrate.errors import SpecError
from migrate.queries.host_options import HostOptions

if TYPE_CHECKING:
    from migrate.queries.queryable_stores import QueryableStores
    from migrate.rows.row_source import RowSide
    from migrate.spec.spec import Spec


_OPTIONS = (
    click.option("--partitions", type=click.IntRange(min=1), help="Partitions of the stores' topics, on all hosts."),
    click.option(
        "--partitioner",
        type=click.Choice(["murmur2", "crc32"]),
        default="murmur2",
        show_default=True,
        help="How the keys of the stores' input were spread: by Kafka's own clients, or by those of librdkafka.",
    ),
    click.option(
        "--hosts", type=click.Path(), help="A TOML file of all hosts and their partitions: requests are forwarded."
    ),
    click.option(
        "--peer",
        "peers",
        multiple=True,
        metavar="HOST:PORT=LIST",
        help="Instead of such a file, once for each host, this one too: its active partitions, like 0,2-5.",
    ),
    click.option(
        "--standby",
        "standbys",
        multiple=True,
        metavar="HOST:PORT=LIST",
        help="Likewise: the partitions of which it has a standby.",
    ),
    click.option(
        "--hosts-from-group",
        is_flag=True,
        help="Ask the broker for the members of the application's group: each states its `application.server`.",
    ),
    click.option(
        "--group-port", type=click.IntRange(1, 65535), help="The services' port there, if not that which members state."
    ),
    click.option(
        "--bootstrap",
        metavar="HOST:PORT",
        help="The broker to ask for partitions, and for hosts unless they are listed. [default: that of [changelog]]",
    ),
    click.option("--application-id", metavar="ID", help="The application's id. [default: the directory's name]"),
    click.option("--config", type=click.Path(), help="A file of librdkafka's properties for that broker."),
    click.option("--application-server", metavar="HOST:PORT", help="This host among those, if not --host and --port."),
)


def host_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options, which `command` gets as `routing`."""

    @functools.wraps(command)
    def with_routing(*args: Any, **given: Any) -> None:  # noqa: ANN401 - click's own
        own = {field.name: given.pop(field.name) for field in fields(HostOptions)}
        command(*args, routing=HostOptions(**own), **given)

    for option in reversed(_OPTIONS):
        with_routing = option(with_routing)
    return with_routing


@click.command()
@spec_verb
@click.argument("key")
@click.option("--store", help="The store, where the spec has several.")
@click.option("--window", metavar="START[,END]", help="One window by its start, or a session by start and end, in ms.")
@click.option("--base64", "is_base64", is_flag=True, help="KEY is the serialized key in base64, whatever the serde.")
def get(spec: Spec, key: str, *, store: str | None, window: str | None, is_base64: bool) -> None:
    """Show the record of a key in the old store and in the new one.

    Between them stands what the conversion makes of the old record. KEY is a text, number or JSON, as the serde of
    [conversion.key] says; without one, text or 0x and hex digits. Only reads, at any time of a migration, and beside a
    running application too.

    \b
    stateferry get migration.toml customer-17
    stateferry get migration.toml customer-17 --window 1700000000000
    stateferry get migration.toml 0x637573746f6d65722d3137 --json
    """
    from migrate.queries.side_by_side import SideBySideStores, stated_window
    from migrate.show.sides import show_get

    report = SideBySideStores(spec).get(store, key, stated_window(window), is_base64=is_base64)
    current_output().show(report, show_get)


@click.command()
@spec_verb
@click.option("--to", "table", required=True, type=click.Path(), help="The directory of the Delta table.")
@click.option("--store", help="The store, where the spec has several.")
@click.option(
    "--side",
    type=click.Choice(["old", "new", "snapshot"]),
    help="The old or the new store of the migration, or its snapshot. [default: the store that the application uses]",
)
@click.option("--columns", default="", metavar="NAME,...", help="The columns to write, beside `task`. [default: all]")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Read and write in N threads or processes of this machine, whichever get further.",
)
def export(spec: Spec, *, table: str, store: str | None, side: RowSide | None, columns: str, jobs: int) -> None:
    """Write the records of a store to a Delta table, without Spark and Java.

    Each record is a row, decoded by the serdes of the spec. The directory is new, or has earlier exports of the store:
    each is a version of the table, so that `VERSION AS OF` shows the state as it was. Only reads the store, at any time
    of a migration, and beside a running application too. If it is interrupted or killed, the same command continues.

    \b
    stateferry export migration.toml --to /data/orders
    stateferry export migration.toml --to /data/orders --side new --columns key,timestamp
    stateferry export migration.toml --to /data/orders --jobs 4
    """
    from migrate.rows.export_table import export as export_rows
    from migrate.show.text.progress import start_shown
    from migrate.show.text.report_text import show_export

    output, names = current_output(), [name for each in columns.split(",") if (name := each.strip())]
    with start_shown(output):
        report = export_rows(spec, table, store=store, side=side, columns=names, jobs=jobs)
    output.show(report, show_export)


@click.command()
@click.argument("place", metavar="SPEC|PATH", type=click.Path(exists=True))
@click.option("--store", help="With PATH: the store's name; of a RocksDB directory by itself, a name to ask for it by.")
@click.option(
    "--format",
    "format_id",
    metavar="FORMAT",
    shell_complete=complete_formats,
    help="With PATH: its format; see `stateferry formats`.",
)
@click.option(
    "--key-serde", metavar="SERDE", help="With PATH: what keys are; a name, or a table as in a spec's `from`."
)
@click.option("--value-serde", metavar="SERDE", help="With PATH: what values are, in the same way. [default: bytes]")
@click.option("--retention-ms", type=click.IntRange(min=0), help="With PATH: leave older records out.")
@click.option("--window-size-ms", type=click.IntRange(min=1), help="With PATH: the size of each window.")
@click.option(
    "--side",
    type=click.Choice(["live", "old", "new"]),
    default="live",
    show_default=True,
    help="With SPEC: the store that the application uses, or the old or the new one of the migration.",
)
@click.option("--stale", is_flag=True, help="Read beside a running application: what it has written to disk.")
@host_options
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=7654, show_default=True, help="The port; 0: a free one.")
@verb
def serve(
    place: str,
    *,
    side: Literal["live", "old", "new"],
    stale: bool,
    host: str,
    port: int,
    routing: HostOptions,
    **of_a_path: str | int | None,
) -> None:
    """Answer queries over HTTP, while the stores are migrated and while they are not.

    SPEC is a migration, whose live store is read before, during and after the switch; PATH is an application's state
    directory or a RocksDB directory. Only reads. Other hosts can reach it only if the environment has
    STATEFERRY_TOKEN, which clients then send as a bearer token, or as the password of any user. /docs lists what can
    be asked; of a migration, /compare is a page that shows old and new records side by side.

    \b
    stateferry serve migration.toml
    stateferry serve state/orders-app --store orders --format kafka-streams.key-value --key-serde string
    curl 'http://127.0.0.1:7654/stores/orders/keys/order-001586?encoding=text'
    """
    from migrate.queries.side_by_side import SideBySideStores
    from migrate.serve.server import listening
    from migrate.spec.spec import load_spec

    given = {name: value for name, value in of_a_path.items() if value is not None}
    is_spec = Path(place).is_file()
    if is_spec and given:  # told before what may be wrong with the file
        option = f"--{next(iter(given)).removesuffix('_id').replace('_', '-')}"
        raise SpecError(f"{option} goes with a directory, and {place} is a file", hint="the spec says how to read it")
    spec = load_spec(place) if is_spec else None
    stores = _stores(place, spec, side, given)
    router, sides = routing.router(stores, Path(place)), None if spec is None else SideBySideStores(spec)
    service = listening(stores, host=host, port=port, router=router, sides=sides, stale=stale)
    if not current_output().quiet:
        compare = "" if sides is None else f", old and new records at {service.url}/compare"
        current_output().say(f"listening on {service.url}, described at {service.url}/docs{compare}")
    service.run()


def _stores(
    place: str, spec: Spec | None, side: Literal["live", "old", "new"], of_a_path: dict[str, Any]
) -> QueryableStores:
    """Also those that an application has open: whether a request may be answered from them, the service decides."""
    from migrate.queries.open.partition import StoreDefinition
    from migrate.queries.queryable_stores import QueryableStores
    from migrate.spec.serdes import stated_serde

    if spec is not None:
        return QueryableStores.of_migration(spec, side=side, stale=True)
    if "store" not in of_a_path or "format_id" not in of_a_path:
        raise SpecError(f"{place} is a directory: which store of it?", hint="give --store and --format")
    definition = StoreDefinition(
        of_a_path["format_id"],
        stated_serde(of_a_path.get("key_serde", "bytes"), "key"),
        stated_serde(of_a_path.get("value_serde", "bytes"), "value"),
        retention_ms=of_a_path.get("retention_ms"),
        window_size_ms=of_a_path.get("window_size_ms"),
    )
    return QueryableStores.of_directory(place, {of_a_path["store"]: definition}, stale=True)


VERBS = (get, export, serve)
"""In the order of work, as the help lists them."""
