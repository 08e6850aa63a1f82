"""The nouns of a migration: frozen values, in the form in which they are stored and printed."""
