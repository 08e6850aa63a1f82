"""What payload bytes mean, one module each: text, numbers, UUIDs, JSON, Avro."""
