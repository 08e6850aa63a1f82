"""Avro's part of the generated code."""
