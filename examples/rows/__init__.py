"""State as rows: a store in SQL, exported, and brought to another number of partitions."""
