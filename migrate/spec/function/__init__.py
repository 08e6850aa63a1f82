"""The user's conversion function: found, loaded, and identified by the code that it is made of."""
