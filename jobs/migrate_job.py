"""`spark-submit jobs/migrate_job.py --spec migration.toml`: the batch migration on Spark.

Works uninstalled and from any directory. Defines nothing: what a script defines is pickled by value.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

if __name__ == "__main__":
    # Python puts jobs/ first on the path, where it would shadow other modules and hide our packages.
    if not sys.flags.safe_path:
        del sys.path[0]
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

    from migrate.cli.job import main
    from migrate.model.packages import claim

    claim("jobs")
    with suppress(ModuleNotFoundError):  # `main` reports it
        from jobs.submit import take_over

        take_over()
    main()
