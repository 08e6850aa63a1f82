"""What needs Spark: its Java, its session, and the batch job."""
