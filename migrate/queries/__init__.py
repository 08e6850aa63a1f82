"""Queries: stores read by name and type while they are migrated, as in Kafka Streams' interactive queries."""
