"""The lazy adapter: a store that reads new-then-old, writes new, deletes old, until the old store is empty."""
