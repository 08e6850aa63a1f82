"""A Kafka broker: topics, groups, and changelogs read to their end and written with confirmation."""
