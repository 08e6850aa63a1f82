"""`python -m migrate` is the command `stateferry`."""

from migrate.cli import main

if __name__ == "__main__":
    main()
