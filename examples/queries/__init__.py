"""A store is asked all the way through its migration."""
