"""Real stores as a data source of a real Spark session."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrameReader, SparkSession
from pyspark.sql import functions as F

from migrate import cutover, load_spec, run
from tests.jobs.rows.sessions import refused, rows, users_session
from tests.queries.support import application, signed
from tests.queries.views.made import key_value, segmented
from tests.shared.windowed import MINUTE, session_key, window_key
from tests.support import KEY_VALUE, TIMESTAMPED, flip_byte, make_store, numbered, open_store, to_toml

TEXTS = [{b"k%d-%04d" % (number, each): b"v%d" % (each % 7) for each in range(1000)} for number in range(3)]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with users_session() as session:
        yield session


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return key_value(tmp_path_factory.mktemp("stores"), *TEXTS)


def of_spec(spark: SparkSession, file: Path) -> DataFrameReader:
    return spark.read.format("stateferry").option("spec", str(file))


def test_every_record_is_a_row(spark: SparkSession, app: Path) -> None:
    found = rows(spark, app, key="text", value="string").collect()
    assert sorted(map(tuple, found)) == [
        (f"0_{number}", number, key.decode(), value.decode())
        for number, records in enumerate(TEXTS)
        for key, value in records.items()
    ]


def test_what_is_never_null_is_not_nullable(spark: SparkSession, app: Path) -> None:
    for mode, never in (("FAILFAST", {"task", "key", "value"}), ("PERMISSIVE", set())):
        found = rows(spark, app, key="text", value="string", mode=mode)
        assert {field.name for field in found.schema if not field.nullable} == never
        assert found.filter("key IS NOT NULL AND value IS NOT NULL").count() == 3000


def test_a_dataframe_is_used_in_every_way(spark: SparkSession, app: Path) -> None:
    orders = rows(spark, app, key="text", value="string")
    assert orders.count() == 3000
    assert orders.filter(F.col("value") == "v3").count() == 3 * 143
    assert orders.count() == 3000, "a filter of an earlier use stays"
    assert orders.limit(7).count() == 7
    assert len(orders.take(2)) == 2
    other = orders.select("key", F.col("value").alias("again"))
    assert orders.join(other, "key").filter("value = again").count() == 3000
    assert orders.groupBy("task").count().count() == 3
    kept = orders.cache()
    assert kept.count() == kept.select("value").count() == 3000
    kept.unpersist()
    assert orders.rdd.getNumPartitions() == 3


def test_sql_reads_a_view(spark: SparkSession, app: Path) -> None:
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW orders USING stateferry OPTIONS (path '{app}', store 'orders', "
        "format 'kafka-streams.key-value', key 'string', value 'text', COLUMNS 'value, key', from_key 'k1', "
        "to_key 'k2')"
    )
    found = spark.sql("SELECT value, count(*) AS n FROM orders GROUP BY value ORDER BY n DESC, value").first()
    assert found == ("v0", 143)
    described = {row.col_name: (row.data_type, row.comment) for row in spark.sql("DESCRIBE orders").collect()}
    assert [*described] == ["value", "key"]
    assert "columns" in described["value"][1] and "from_key" in described["key"][1]


def test_two_uses_of_a_store_that_changes_show_what_is_there(spark: SparkSession, tmp_path: Path) -> None:
    app = key_value(tmp_path, numbered(10))
    orders = rows(spark, app)
    assert orders.count() == 10
    with open_store(app / "0_0/rocksdb/orders") as database:
        database[b"new"] = b"value"
    assert orders.count() == 11
    (app / "0_1/rocksdb").mkdir(parents=True)
    make_store(app / "0_1/rocksdb/orders", numbered(5))
    assert orders.count() == 11, "Spark asks once for the ranges of a DataFrame"
    assert rows(spark, app).count() == 16


def test_columns_have_the_types_of_the_format(spark: SparkSession, tmp_path: Path) -> None:
    timed = (1_700_000_000_123).to_bytes(8, "big") + (7).to_bytes(8, "big")
    app = key_value(tmp_path, {b"key": timed, b"old": b"\xff" * 8 + bytes(8)}, family="keyValueWithTimestamp")
    found = rows(spark, app, format_id=TIMESTAMPED, key="string", value="long")
    assert found.dtypes[2:] == [("key", "string"), ("value", "bigint"), ("timestamp", "timestamp")]
    assert found.select("key", "value", F.unix_millis("timestamp")).collect() == [
        ("key", 7, 1_700_000_000_123),
        ("old", 0, None),
    ]


def test_windows_and_sessions_have_their_times(spark: SparkSession, tmp_path: Path) -> None:
    app = segmented(tmp_path, {0: {window_key(b"a", 5, 2): b"x"}, MINUTE: {window_key(b"a", MINUTE): b"y"}})
    times = [F.unix_millis(name) for name in ("window_start", "window_end")]
    found = rows(spark, app, format_id="kafka-streams.window", window_size_ms="1000")
    assert sorted(found.select(*times, "sequence").collect()) == [(5, 1005, 2), (MINUTE, MINUTE + 1000, 0)]
    assert rows(spark, app, format_id="kafka-streams.window").filter("window_end is null").count() == 2
    shutil.rmtree(app)
    app = segmented(tmp_path, {0: {session_key(b"a", 3, 9): b"x"}})
    assert rows(spark, app, format_id="kafka-streams.session").select(*times).collect() == [(3, 9)]


def test_a_migrations_store_is_read_by_its_spec(spark: SparkSession, tmp_path: Path) -> None:
    application(tmp_path)
    file = tmp_path / "migration.toml"
    file.write_text(
        to_toml(
            {
                "name": "orders",
                "work_dir": "work",
                "source": {"path": "app", "store": "orders", "format": "kafka-streams.key-value"},
                "target": {"format": TIMESTAMPED},
                "conversion": {"key": {"from": {"serde": "string"}, "to": {"serde": "string"}}},
            }
        )
    )
    assert of_spec(spark, file).load().columns == ["task", "partition", "key", "value"]
    with pytest.raises(PySparkException, match="is not assembled yet") as error:
        of_spec(spark, file).option("side", "new").load()
    refused(error)
    run(load_spec(file))
    assert of_spec(spark, file).option("side", "new").load().columns == [
        "task",
        "partition",
        "key",
        "value",
        "timestamp",
    ]
    cutover(load_spec(file))
    assert of_spec(spark, file).load().count() == len(signed(b"A"))
    old = (
        spark.read.format("stateferry").option("spec", str(file)).option("side", "old").option("from_key", "key-000395")
    )
    assert [row.key for row in old.load().collect()] == [f"key-{number:06d}" for number in range(395, 400)]


def test_a_record_that_cannot_be_decoded_ends_the_query_unless_permitted(spark: SparkSession, tmp_path: Path) -> None:
    app = key_value(tmp_path, {b"a": b"text", b"b": b"\xff\xfe"})
    with pytest.raises(PySparkException) as error:
        rows(spark, app, value="string").count()
    assert '"b"' in refused(error) and "0_0" in str(error.value)
    a, b = rows(spark, app, value="string", mode="permissive").orderBy("key").collect()
    assert (a["value"], a["_error"], b["value"]) == ("text", None, None)
    assert "UTF-8" in b["_error"]


def _damaged(app: Path) -> None:
    table = next((app / "0_1/rocksdb/orders").glob("*.sst"))
    flip_byte(table, table.stat().st_size // 2)


def _half_a_manifest(app: Path) -> None:
    manifest = next((app / "0_1/rocksdb/orders").glob("MANIFEST-*"))
    manifest.write_bytes(manifest.read_bytes()[:20])


def _without_a_table(app: Path) -> None:
    next((app / "0_1/rocksdb/orders").glob("*.sst")).unlink()


@pytest.mark.parametrize("happens", [_damaged, _half_a_manifest, _without_a_table])
def test_damage_is_an_error_and_never_fewer_rows(
    spark: SparkSession, tmp_path: Path, happens: Callable[[Path], None]
) -> None:
    app = key_value(tmp_path, *TEXTS)
    orders = rows(spark, app)
    assert orders.count() == 3000
    happens(app)
    for use in (orders.count, orders.collect, orders.limit(2500).collect):
        with pytest.raises(PySparkException) as error:
            use()
        assert "0_1" in refused(error)


def test_a_task_that_is_gone_is_an_error_of_a_migration(spark: SparkSession, tmp_path: Path) -> None:
    app = key_value(tmp_path, *TEXTS)
    file = tmp_path / "migration.toml"
    file.write_text(
        to_toml(
            {
                "name": "orders",
                "work_dir": "work",
                "source": {"path": "app", "store": "orders", "format": "kafka-streams.key-value"},
                "target": {"format": TIMESTAMPED, "path": "new"},
            }
        )
    )
    run(load_spec(file))
    orders = of_spec(spark, file).option("side", "old").load()
    assert orders.count() == 3000
    shutil.rmtree(app / "0_1")
    for use, said in (
        (orders.count, "0_1/orders was removed"),
        (of_spec(spark, file).option("side", "old").load, "0_1/orders is not in"),
    ):
        with pytest.raises(PySparkException, match=said) as error:
            use()
        refused(error)


@pytest.mark.parametrize(
    "options, said",
    [
        ({"colums": "key"}, "unknown option 'colums': did you mean 'columns'?"),
        ({"fromKey": "a"}, "unknown option 'fromkey': did you mean 'from_key'?"),
        ({"side": "old"}, "the option 'side' goes with `spec`"),
        ({"columns": "key, vaule"}, "did you mean 'value'?"),
        ({"store": "order"}, "did you mean 'orders'?"),
        ({"store": ""}, "the option 'store' is missing"),
        ({"format": "kafka-streams.timestamped-key-value"}, "it has no column family 'keyValueWithTimestamp'"),
        ({"format": "kafka-streams.keyvalue"}, "did you mean 'kafka-streams.key-value'?"),
        ({"key": "strin"}, "did you mean 'string'?"),
        ({"key": "long", "from_key": "x"}, "'x' is not a key of this store"),
        ({"mode": "DROPMALFORMED"}, "mode is FAILFAST or PERMISSIVE"),
        ({"window_size_ms": "5m"}, "window_size_ms is a number of milliseconds, not '5m'"),
        ({"path": "/no/such/place"}, "/no/such/place"),
        ({"path": "/"}, "let the option `path` name the application's own directory"),
    ],
)
def test_bad_options_are_a_sentence(spark: SparkSession, app: Path, options: dict[str, str], said: str) -> None:
    given = {"path": str(app), "store": "orders", "format": "kafka-streams.key-value", **options}
    with pytest.raises(PySparkException) as error:
        spark.read.format("stateferry").options(**given).load()
    assert said in refused(error)


def test_a_schema_of_the_users_is_refused(spark: SparkSession, app: Path) -> None:
    given = {"path": str(app), "store": "orders", "format": "kafka-streams.key-value"}
    with pytest.raises(PySparkException, match=r"leave \.schema") as error:
        spark.read.format("stateferry").schema("key string").options(**given).load().collect()
    refused(error)


def test_a_store_is_not_written(spark: SparkSession, app: Path) -> None:
    given = {"path": str(app), "store": "orders", "format": KEY_VALUE}
    with pytest.raises(PySparkException, match="does not write into a state store") as error:
        rows(spark, app).write.format("stateferry").mode("append").options(**given).save()
    refused(error)
