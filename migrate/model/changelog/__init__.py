"""What a migration does with the changelog topics of its stores, as its ledger holds it."""
