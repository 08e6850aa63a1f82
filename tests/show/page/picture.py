"""Writes docs/images: the page of `plan` for the demo's store. `make docs-images` runs it; it needs chromium."""

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.show.page.chromium import chromium

ROOT = Path(__file__).parents[3]
IMAGES = ROOT / "docs/images"
HEIGHT = 795


def main() -> None:
    """Both colour schemes."""
    IMAGES.mkdir(exist_ok=True)
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copytree(ROOT / "tests/fixtures/kafka-streams-4.0.1/orders-app", folder / "state/orders-app")
        shutil.copy(ROOT / "examples/demo/migration.toml", folder)
        stateferry = str(Path(sys.executable).with_name("stateferry"))
        command = [stateferry, "plan", "migration.toml", "--html", "plan.html"]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        with chromium(folder / "profile") as browser:
            for name, dark in (("plan-page", False), ("plan-page-dark", True)):
                browser.open(folder / "plan.html", dark=dark)
                browser.screenshot(IMAGES / f"{name}.png", height=HEIGHT)


if __name__ == "__main__":
    main()
