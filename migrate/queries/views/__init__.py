"""Read-only stores by type: key-value, window, session, versioned."""
