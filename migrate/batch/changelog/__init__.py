"""The changelogs of a migration: which way each goes, written, read back, caught up with, undone."""
