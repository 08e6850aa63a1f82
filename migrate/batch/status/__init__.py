"""What the ledger tells an onlooker: `status`, `report`, and "already migrated"."""
