"""`python -m tests.broker`: a broker on localhost:9092 until it is interrupted, for the examples of the docs."""

import sys
import tempfile
from pathlib import Path

import click

from tests.broker.broker import running_broker
from tests.live.maven import ProgramError


@click.command()
def main() -> None:
    """Run a Kafka broker on localhost:9092 for the docs' examples, until Ctrl-C."""
    with tempfile.TemporaryDirectory() as folder, running_broker(Path(folder), port=9092) as broker:
        print(f"A Kafka broker listens on {broker.bootstrap}. Ctrl-C ends it and removes its data.", flush=True)
        try:
            broker.process.wait()
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    try:
        main()
    except ProgramError as error:
        sys.exit(str(error))
