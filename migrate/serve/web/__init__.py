"""HTTP: requests, answers, connections and their limits; knows no store."""
