"""Our packages as one file, for Python processes of Spark: they run exactly the driver's code."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from importlib.util import cache_from_source
from pathlib import Path

from migrate.model.packages import OUR_PACKAGES, PLACE


def packed(folder: Path) -> Path:
    """A zip of our packages: a copy, where they were imported from one, since that one may come late on the path.

    `folder`: where it is, in a folder of its own, as long as executors may start, which fetch it then.
    """
    made = Path(tempfile.mkdtemp(prefix="stateferry-", dir=folder))
    archive = made / f"{made.name}.zip"  # another name in each run: a session takes a name from one place only
    if not PLACE.is_dir():
        return Path(shutil.copyfile(PLACE, archive))
    with zipfile.ZipFile(archive, "w") as out:
        for package in OUR_PACKAGES:
            for file in sorted((PLACE / package).rglob("*.py")):
                out.write(file, file.relative_to(PLACE))
                compiled = Path(cache_from_source(str(file)))
                if compiled.is_file():  # Python uses it if it is its own and of this source
                    out.write(compiled, file.relative_to(PLACE).with_suffix(".pyc"))
    return archive
