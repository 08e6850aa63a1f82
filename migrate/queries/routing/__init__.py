"""Which partition a key is in, and which host has it."""
