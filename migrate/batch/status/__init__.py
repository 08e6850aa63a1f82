"""Reports made from the ledger: `status`, `status --watch`, `report`, and the report of a run."""
