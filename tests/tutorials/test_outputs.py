"""What a page shows of an output is compared with the output, and can be written anew."""

from pathlib import Path

import pytest

from tests.tutorials.outputs import agrees, presented, shortened
from tests.tutorials.pages import Command, File, steps
from tests.tutorials.session import Session
from tests.tutorials.walk import follow, write

PAGE = """\
Text with `code`.

```console
$ echo one
> echo two
one
...
$ false
$ echo $?
1
```

```python
# names.py
NAME = "x"
```

```python
print("only an example")
```

```console
$ cat names.py
# names.py
NAME = "x"
```
"""


def test_a_page_is_commands_with_their_output_and_files() -> None:
    assert steps(PAGE) == [
        Command("echo one\necho two", 4, ["one", "..."]),
        Command("false", 8),
        Command("echo $?", 9, ["1"]),
        File("names.py", '# names.py\nNAME = "x"\n'),
        Command("cat names.py", 23, ["# names.py", 'NAME = "x"']),
    ]


@pytest.mark.parametrize(
    "shown, printed",
    [
        (["a", "...", "d"], ["a", "b", "c", "d"]),
        (["a", "..."], ["a"]),
        (["took 0.5 s"], ["took 12 ms"]),
        (["state   cut over"], ["state", "cut", "over"]),
        (["10:00:00 name: rewrite 10%: 1/9 chunks", "10:00:00 name: done"], ["11:11:11 name: done"]),
    ],
)
def test_what_agrees(shown: list[str], printed: list[str]) -> None:
    assert agrees(shown, printed)


@pytest.mark.parametrize(
    "shown, printed",
    [
        (["a"], ["a", "b"]),
        ([], ["a"]),
        (["a", "...", "d"], ["a", "b"]),
        (["a", "...", "c", "...", "b"], ["a", "b", "c"]),
        (["6,000 records equal"], ["5,999 records equal"]),
        (["10:00:00 name: done"], ["11:11:11 name: failed"]),
    ],
)
def test_what_does_not(shown: list[str], printed: list[str]) -> None:
    assert not agrees(shown, printed)


def test_an_output_is_shortened_where_the_page_shortens_it() -> None:
    shown = ["state  old", "...", "next  go on", "  twice", "..."]
    printed = ["state  new", "x", "y", "next  go on", "  once", "z"]
    assert shortened(shown, printed) == ["state  new", "...", "next  go on", "  once", "..."]


def test_the_readers_directory_and_host_are_shown(tmp_path: Path) -> None:
    assert presented(f"\nwrote {tmp_path}/x \n", tmp_path) == ["wrote /home/you/stateferry/x"]


def test_a_page_is_followed_in_one_shell(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace("$ false", "$ mkdir -p below && cd below && false").replace("one\n...", "three"))
    session = Session(tmp_path, tmp_path / "state", {"PATH": "/usr/bin:/bin"})
    outcomes = list(follow(page, session))
    assert [outcome.problem is None for outcome in outcomes] == [False, True, True, True]
    assert session.directory == tmp_path / "below"
    write(page, outcomes)
    assert "> echo two\none\ntwo\n$ mkdir" in page.read_text()


def test_a_failure_that_is_not_shown_is_a_problem(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ false\n$ echo on\non\n```\n")
    problems = [each.problem for each in follow(page, Session(tmp_path, tmp_path / "state", {"PATH": "/usr/bin:/bin"}))]
    assert problems == ["it ended with exit code 1", None]
