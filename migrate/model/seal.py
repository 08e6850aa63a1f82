"""Seals: the last member of a stored JSON object is a digest of everything before it.

Files of earlier releases have no seal, and are accepted without one.
"""

from __future__ import annotations

import hashlib
import re

_SEAL = re.compile(r'(,\n |,)?"digest": ?"([0-9a-f]{64})"(\n?\})\Z')
_LONGEST_SEAL = 84


def with_seal(text: str, *, beside: str = "") -> str:
    """A JSON object with its digest; `beside`: other text that the digest covers."""
    body = text.removesuffix("}").removesuffix("\n")
    gap, end = (",\n ", "\n}") if text.endswith("\n}") else ("," if body != "{" else "", "}")
    return f'{body}{gap}"digest":"{_digest(text, beside)}"{end}'


def without_seal(text: str, *, beside: str = "") -> tuple[str, bool | None]:
    """The object without its seal, and whether the digest is right; None: there is no seal."""
    seal = _SEAL.search(text, max(0, len(text) - _LONGEST_SEAL))
    if seal is None:
        return text, None
    plain = text[: seal.start()] + seal[3]
    return plain, _digest(plain, beside) == seal[2]


def read_sealed(content: bytes) -> tuple[str, bool]:
    """A file's JSON without its seal, and whether it may be intact: the digest is right, or there is no seal."""
    text, fits = without_seal(content.decode("utf-8", "replace"))
    return text, fits is not False


def _digest(text: str, beside: str) -> str:
    return hashlib.sha256(f"{beside}{text}".encode()).hexdigest()
