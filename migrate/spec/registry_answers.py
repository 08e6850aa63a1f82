"""What a Schema Registry answered when a migration was begun, kept beside its plan.

A resume, a verification and a cut-over convert by the schemas that the run was begun with (I2), and need no registry.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from migrate.errors import RefusedError
from migrate.model.plan import newest_plan
from migrate.model.seal import read_sealed, with_seal
from migrate.spec.registry_http import NotFoundAnswer, RegistryHttp
from migrate.stores.files import write_durably

_FILE = "registry-answers.json"


@dataclass(frozen=True, slots=True)
class KeptAnswers:
    """By URL: what is here is not asked for again."""

    known: dict[str, Any] = field(default_factory=dict)

    def get(self, http: RegistryHttp, path: str) -> Any:  # noqa: ANN401 - JSON
        """The answer's JSON, or NotFoundAnswer, which is not kept. Raises RegistryError."""
        url = http.url + path
        if url not in self.known:
            answer = http.get(path)
            if isinstance(answer, NotFoundAnswer):
                return answer
            self.known[url] = answer
        return self.known[url]

    @property
    def text(self) -> str:
        """All of them."""
        return json.dumps(self.known, sort_keys=True)


def load_answers(home: Path) -> KeptAnswers:
    """Of the migration that was begun; none where no plan is stored. Raises RefusedError for a damaged file."""
    file = home / _FILE
    if newest_plan(home) is None or not file.is_file():
        return KeptAnswers()
    text, is_whole = read_sealed(file.read_bytes())
    reason = "it does not have the digest that it names"
    if is_whole:
        try:
            return KeptAnswers(dict(json.loads(text)))
        except (ValueError, TypeError) as error:
            reason = str(error)
    raise RefusedError(
        f"{file} is damaged: {reason}",
        hint="remove it: the Schema Registry is asked again, where it still says the same",
    )


def store_answers(home: Path, texts: list[str]) -> None:
    """Write them, durably, before the plan that they go with."""
    known = {url: answer for text in texts for url, answer in json.loads(text).items()}
    if known:
        write_durably(home / _FILE, with_seal(json.dumps(known, indent=1, sort_keys=True)).encode())
