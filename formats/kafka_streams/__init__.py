"""Formats of Kafka Streams, one module each."""
