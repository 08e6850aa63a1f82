"""The old store and the new one of a migration, side by side: what a person looks at before the switch."""
