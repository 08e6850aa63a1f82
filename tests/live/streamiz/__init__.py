"""The real Streamiz, where this machine has it: `program` says how it is found."""
