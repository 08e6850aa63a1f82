"""Schema Registry responses, pinned beside the plan when a migration starts.

A resume, a verification and a cut-over convert by the schemas that the run started with (I2), and need no registry.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from migrate.errors import RefusedError
from migrate.model.plan import newest_plan
from migrate.model.values import read_sealed, with_seal
from migrate.spec.registry_http import NotFound, RegistryHttp
from migrate.stores.files import write_durably

_FILE = "registry-answers.json"


@dataclass(frozen=True, slots=True)
class PinnedResponses:
    """Responses by URL. A pinned URL is not requested again."""

    known: dict[str, Any] = field(default_factory=dict)

    def get(self, http: RegistryHttp, path: str) -> Any:  # noqa: ANN401 - JSON
        """The response's JSON, or NotFound, which is not pinned. Raises RegistryError."""
        url = http.url + path
        if url not in self.known:
            response = http.get(path)
            if isinstance(response, NotFound):
                return response
            self.known[url] = response
        return self.known[url]

    @property
    def text(self) -> str:
        """The responses as JSON."""
        return json.dumps(self.known, sort_keys=True)


def load_responses(home: Path) -> PinnedResponses:
    """What a started migration has pinned; empty without a stored plan. Raises RefusedError for a damaged file."""
    file = home / _FILE
    if newest_plan(home) is None or not file.is_file():
        return PinnedResponses()
    text, is_whole = read_sealed(file.read_bytes())
    reason = "its digest does not match its content"
    if is_whole:
        try:
            return PinnedResponses(dict(json.loads(text)))
        except (ValueError, TypeError) as error:
            reason = str(error)
    raise RefusedError(
        f"{file} is damaged: {reason}",
        hint="remove it: the Schema Registry is requested again, and must still hold the same schemas",
    )


def store_responses(home: Path, texts: list[str]) -> None:
    """Write the responses durably; called before the plan that they belong to is stored."""
    known = {url: response for text in texts for url, response in json.loads(text).items()}
    if known:
        write_durably(home / _FILE, with_seal(json.dumps(known, indent=1, sort_keys=True)).encode())
