"""Installing: what the base install can do, its size, and what it says about the rest."""
