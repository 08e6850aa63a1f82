"""Benchmarks: how fast the product is beside other ways to do the same, measured side by side in one run.

`python -m benchmarks` makes its own stores, measures, writes results/ and fails where a bar of `bars.py` is missed.
"""
