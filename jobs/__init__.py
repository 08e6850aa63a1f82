"""Everything that needs Spark: its Java, its session, the executors, and the batch job."""
