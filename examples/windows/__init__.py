"""A windowed store with Avro values, from one schema to the next."""
