"""Dual reading inside stream processors, in the state that they keep themselves. See docs/processors.md."""
