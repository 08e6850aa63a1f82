"""Follow the README and the tutorials, and report the first thing that is not as they say.

python -m tests.tutorials             in temporary folders, with what is installed
python -m tests.tutorials --fresh     in a fresh clone of the last commit; installs everything as the README says
python -m tests.tutorials --write     show on the pages what their commands print now
"""

import sys
import tempfile
from pathlib import Path

import click

from tests.tutorials.pages import PAGES
from tests.tutorials.session import Session
from tests.tutorials.surroundings import fresh, installed
from tests.tutorials.walk import complaint, follow, write


@click.command()
@click.option("--fresh", "is_fresh", is_flag=True, help="In a fresh clone of the last commit: takes minutes.")
@click.option("--write", "is_written", is_flag=True, help="Show on the pages what their commands print now.")
@click.argument("pages", nargs=-1, type=click.Path(exists=True, path_type=Path))
def main(is_fresh: bool, is_written: bool, pages: tuple[Path, ...]) -> None:
    """Exit with 1 where something is not as a page says."""
    with tempfile.TemporaryDirectory(prefix="tutorials-") as folder:
        reader = fresh(Path(folder)) if is_fresh else None
        for page in pages or PAGES:
            session = reader or installed(Path(folder, page.stem))
            session.start_page()
            if is_written:
                write(page, list(follow(page, session)))
            else:
                _check(page, session, installs=is_fresh)


def _check(page: Path, session: Session, *, installs: bool) -> None:
    for outcome in follow(page, session, installs=installs):
        print(f"{page.name}: $ {outcome.command.text}", flush=True)
        if outcome.problem:
            sys.exit(complaint(page, outcome))


if __name__ == "__main__":
    main()
