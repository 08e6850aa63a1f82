"""What a migration is to do: the TOML file, the function, the serdes, the Schema Registry, `allow`."""
