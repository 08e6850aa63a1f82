"""`python -m tests.live.avro`: thousands of pairs of schemas against Java's Avro. Exits 1 where they differ."""

import argparse
import sys

from tests.live.avro.comparing import compare, generate
from tests.live.avro.java import VERSIONS


def main() -> int:
    """Prints what each release made of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=20, help="how many differences to print")
    options = parser.parse_args()
    cases = list(generate(options.seed, options.pairs))
    failed = False
    for version in VERSIONS:
        found = compare(version, cases)
        print(f"Avro {version}: {found.equal} alike, {len(found.differences)} not; read by one alone:")
        for reason, count in found.known.most_common():
            print(f"  {count:6} {reason}")
        print("\n".join(found.differences[: options.show]))
        failed |= bool(found.differences)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
