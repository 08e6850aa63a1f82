"""What the broker is asked and told beside the records: the group, transactions, topics, and the claims of hosts."""
