"""Sorting by Spark: a wave of ranges of new keys is one query, which reads by our data source and writes by it.

Spark moves each record to its range and sorts it there, spilling to its local disks.
"""
