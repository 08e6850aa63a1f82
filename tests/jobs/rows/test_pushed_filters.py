"""Why the data source takes no filters. Where one of these fails, Spark is mended, and the source may take them."""

from collections.abc import Iterable, Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from tests.jobs.rows.sessions import users_session

SETTING = "spark.sql.python.filterPushdown.enabled"


def taking_filters() -> type[DataSource]:
    """A source of ten numbers that takes every filter, of the one kind that this test uses: fewer than five."""

    class Reader(DataSourceReader):
        most = 10

        def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
            self.most = 5 if filters else 10
            return iter(())

        def read(self, _: InputPartition) -> Iterator[tuple[int]]:
            return ((number,) for number in range(self.most))

    class Numbers(DataSource):
        @classmethod
        def name(cls) -> str:
            return "numbers"

        def schema(self) -> str:
            return "n int not null"

        def reader(self, schema: StructType) -> DataSourceReader:
            assert schema
            return Reader()

    return Numbers


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with users_session() as session:
        session.dataSource.register(taking_filters())
        yield session


def test_a_pushed_filter_stays_in_the_dataframe(spark: SparkSession) -> None:
    spark.conf.set(SETTING, "true")
    numbers = spark.read.format("numbers").load()
    assert numbers.filter("n < 5").count() == 5
    assert numbers.count() == 5, "10: Spark is mended"


def test_a_source_that_takes_filters_is_not_read_without_the_setting(spark: SparkSession) -> None:
    spark.conf.set(SETTING, "false")
    with pytest.raises(PySparkException, match="DATA_SOURCE_PUSHDOWN_DISABLED"):
        spark.read.format("numbers").load().count()
