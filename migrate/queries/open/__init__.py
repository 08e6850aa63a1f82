"""The store partitions that queries read: their files opened, and noticed when they are replaced."""
