"""The tutorials and the README, run as they are written: their commands, the files they show, and their outputs."""
