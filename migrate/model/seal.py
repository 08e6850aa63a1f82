"""Seals: a stored JSON object whose last member is the digest of all that stands before it.

A file that an earlier release wrote has none, and is taken as it is.
"""

from __future__ import annotations

import hashlib
import re

_SEAL = re.compile(r'(,\n |,)?"digest": ?"([0-9a-f]{64})"(\n?\})\Z')


def with_seal(text: str, *, beside: str = "") -> str:
    """A JSON object with its digest; `beside`: what else the digest answers for."""
    body = text.removesuffix("}").removesuffix("\n")
    gap, end = (",\n ", "\n}") if text.endswith("\n}") else ("," if body != "{" else "", "}")
    return f'{body}{gap}"digest":"{_digest(text, beside)}"{end}'


def without_seal(text: str, *, beside: str = "") -> tuple[str, bool | None]:
    """The object as it was, and whether it has the digest that it names; None: it names none."""
    seal = _SEAL.search(text)
    if seal is None:
        return text, None
    plain = text[: seal.start()] + seal[3]
    return plain, _digest(plain, beside) == seal[2]


def read_sealed(content: bytes) -> tuple[str, bool]:
    """A file's JSON, and whether it may be what was written: it has its digest, or was written without one."""
    text, fits = without_seal(content.decode("utf-8", "replace"))
    return text, fits is not False


def _digest(text: str, beside: str) -> str:
    return hashlib.sha256(f"{beside}{text}".encode()).hexdigest()
