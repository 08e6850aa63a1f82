"""The demo: a real state directory of Kafka Streams, migrated by spark-submit."""
