"""A store and its changelog get a new schema, with a real application on a real broker."""
