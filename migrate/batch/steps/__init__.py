"""The steps of a run, in this order: prepare, reconcile, rewrite, assemble, verify, publish.

Each is durable before the ledger records it, and recorded before the next one begins (I1).
"""
