"""The steps of a batch migration, one module each, in this order: prepare, rewrite, assemble, verify, publish.

Each is durable before the ledger says so, and the ledger says so before the next one begins (I1).
"""
