"""Everything that needs Spark: its Java, its JVM and context, the executors, and the batch job."""
