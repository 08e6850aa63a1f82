"""State inside Spark, Quix Streams and Faust gets a new form, one after the other, with a broker of its own.

Each example runs the old code, the new code with the adapter until all has converged, and the new code alone. Then it
compares all totals with a model.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.broker.broker import running_broker
from tests.live.maven import ProgramError

WITHOUT_BROKER = "spark_totals"
EXAMPLES = (WITHOUT_BROKER, "quix_totals", "faust_totals")


def main() -> int:
    """How many examples found a total that is wrong, or failed."""
    failed = []
    with tempfile.TemporaryDirectory(prefix="stateferry-") as folder, running_broker(Path(folder)) as broker:
        for name in EXAMPLES:
            print(f"\n{name}:", flush=True)
            where = [] if name == WITHOUT_BROKER else ["--bootstrap", broker.bootstrap]
            if subprocess.run([sys.executable, "-m", f"examples.{name}", *where], check=False).returncode != 0:
                failed.append(name)
    print(f"\n{', '.join(failed)} failed" if failed else "\nall totals are those of the model")
    return len(failed)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ProgramError as error:
        sys.exit(str(error))
