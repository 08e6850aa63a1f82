"""Avro values: schemas, their resolution by Avro's rules, and its compiled form."""
