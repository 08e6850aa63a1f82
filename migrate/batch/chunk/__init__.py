"""What a worker does: read a range, rewrite it, compare it; and the seam to Spark."""
