"""What a Spark session is set to, beside what its user set: no network for a local master."""

from __future__ import annotations

import pytest

from jobs.session import settings

HERE = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
SUBMITTED = {"PYSPARK_GATEWAY_PORT": "1"}


@pytest.mark.parametrize("environment", [{}, SUBMITTED])
@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[4,2]"])
def test_a_local_master_listens_on_the_loopback_and_serves_no_pages(environment: dict[str, str], master: str) -> None:
    for found in (settings([], master, environment), settings([("spark.master", master)], None, environment)):
        assert found.items() >= {**HERE, "spark.master": master, "spark.ui.enabled": "false"}.items()


def test_without_a_master_it_is_a_local_one() -> None:
    assert settings([], None, {}).items() >= {**HERE, "spark.master": "local[*]"}.items()


@pytest.mark.parametrize("master", ["local-cluster[2,1,1024]", "spark://host:7077", "yarn", "k8s://https://host"])
def test_a_cluster_is_left_as_it_was_submitted(master: str) -> None:
    assert settings([("spark.master", master)], None, SUBMITTED) == {"spark.master": master}


@pytest.mark.parametrize("name", ["spark.driver.host", "spark.driver.bindAddress", "SPARK_LOCAL_IP"])
def test_an_address_that_the_user_names_holds(name: str) -> None:
    given, environment = ([(name, "10.1.2.3")], {}) if name.startswith("spark.") else ([], {name: "10.1.2.3"})
    assert settings(given, "local[2]", environment).keys().isdisjoint(HERE)


@pytest.mark.parametrize("environment", [{}, SUBMITTED])
def test_pages_that_the_user_asks_for_are_served(environment: dict[str, str]) -> None:
    assert "spark.ui.enabled" not in settings([("spark.ui.enabled", "true")], "local[2]", environment)
