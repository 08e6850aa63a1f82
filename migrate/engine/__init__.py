"""Engines: the hot loop of a chunk. They differ in speed, never in a byte or a receipt (I2)."""
