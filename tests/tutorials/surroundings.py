"""Where a page is followed: a folder with what is installed here, or a fresh clone that has nothing yet."""

import os
import subprocess
import sys
from pathlib import Path

from tests.shared.commands import OF_A_TERMINAL, CommandServer
from tests.tutorials.pages import ROOT
from tests.tutorials.session import WITHOUT_PYSPARK, Session

_AS_ON_A_TERMINAL = {"PYTHONUNBUFFERED": "1"}
_OF_THE_MACHINE = ("LANG", "TMPDIR", "PIP_", "SSL_", "REQUESTS_CA", "CURL_CA", "HTTP", "http", "NO_PROXY", "no_proxy")


def installed(folder: Path, server: CommandServer | None = None) -> Session:
    """What the pages install is that of this Python, but for PySpark, which they leave out."""
    place = folder.resolve() / "stateferry"
    place.mkdir(parents=True)
    (folder / "sitecustomize.py").write_text(f"{WITHOUT_PYSPARK}\n")
    environment = {name: value for name, value in os.environ.items() if name not in OF_A_TERMINAL}
    environment |= _AS_ON_A_TERMINAL | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}",
    }
    return Session(place, folder / "state", environment, server)


def fresh(folder: Path) -> Session:
    """A clone of the last commit, for somebody who has Python, make and a network."""
    place = folder.resolve() / "stateferry"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(place)], check=True)
    (folder / "home").mkdir()
    python = Path(getattr(sys, "_base_executable", sys.executable)).parent
    environment = {name: value for name, value in os.environ.items() if name.startswith(_OF_THE_MACHINE)}
    path = f"{python}{os.pathsep}/usr/local/bin:/usr/bin:/bin"
    environment |= _AS_ON_A_TERMINAL | {"HOME": str(folder / "home"), "PATH": path}
    return Session(place, folder / "state", environment)
