"""A page as its reader sees it, and a report as its parts."""

from collections.abc import Iterator
from enum import Enum
from html.parser import HTMLParser
from pathlib import Path

from pydantic import BaseModel

from migrate.model.display import duration, moment, number, rate, share, size, visible
from migrate.model.key_range import KeyRange

Leaf = tuple[str, object]
"""Where it stands in the report, and what it is."""

_VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """Its text with the tooltips, its elements, and how well they are nested."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.folded = ""
        """The text that is shown on a click."""
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()
        self.squeezed = "".join(self.text.split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """What is closed is what was opened last."""
        assert self.open.pop() == tag, (tag, self.getpos())

    def handle_data(self, data: str) -> None:
        """Remember it, unless it is the style sheet."""
        if self.open[-1:] != ["style"]:
            self.text += data
        if "details" in self.open and "summary" not in self.open:
            self.folded += data

    def attributes(self, name: str) -> list[str]:
        return [value or "" for _, found in self.elements for key, value in found.items() if key == name]

    def has(self, leaf: object) -> bool:
        """Whether the page contains this value, in one of the forms in which such values are written."""
        return any("".join(words.split()) in self.squeezed for words in _ways(leaf))


def leaves(part: object, where: str = "") -> Iterator[Leaf]:
    """All that a report holds, part by part."""
    if isinstance(part, KeyRange):
        yield where, str(part)
    elif isinstance(part, BaseModel):
        for name in type(part).model_fields:
            yield from leaves(getattr(part, name), f"{where}.{name}")
    elif isinstance(part, tuple):
        for at, item in enumerate(part):
            yield from leaves(item, f"{where}[{at}]")
    elif part is not None:
        yield where, part


def _ways(leaf: object) -> Iterator[str]:
    if isinstance(leaf, bool):
        yield ""  # a word that depends on it, which another test checks
    elif isinstance(leaf, int):
        yield from (number(leaf), str(leaf), size(leaf), moment(leaf), duration(leaf))
    elif isinstance(leaf, float):
        yield from (duration(leaf), rate(leaf), share(leaf))
    elif isinstance(leaf, bytes):
        yield leaf.hex()
        yield leaf.decode("ascii", "replace")
    elif isinstance(leaf, str | Path | Enum):
        text = visible(str(leaf))
        yield text
        yield text[:1].upper() + text[1:]
