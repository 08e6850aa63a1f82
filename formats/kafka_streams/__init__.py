"""Formats of Kafka Streams, and the kinds of its stores that have none."""
