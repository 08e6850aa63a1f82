"""What a migration is to do: the TOML file, the function, the serdes, the Schema Registry, `allow`."""

from migrate.spec.spec import Spec, load_spec, parse_spec

__all__ = ["Spec", "load_spec", "parse_spec"]
