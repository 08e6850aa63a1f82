"""A stream processor that is upgraded to a new state format while it runs, and killed at random."""
