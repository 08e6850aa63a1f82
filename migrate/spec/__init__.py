"""What a migration is to do: the TOML file, the function, the serdes, the Schema Registry, `allow`."""

from migrate.spec.loading import load_spec, parse_spec
from migrate.spec.spec import Spec

__all__ = ["Spec", "load_spec", "parse_spec"]
