"""A real Kafka broker for tests, made of Maven's jars."""
