"""The batch migration, from the snapshot to `finalize`."""
