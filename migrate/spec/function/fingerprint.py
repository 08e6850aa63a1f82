"""The fingerprint of a user's function: digests of its code, part of the identity, checked wherever it runs."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from migrate.errors import RefusedError, SpecError
from migrate.spec.function.modules import (
    archive_digests,
    file_digest,
    loaded_digests,
    module_digests,
    recording_imports,
)
from migrate.spec.function.names import check_names_on_executors
from migrate.spec.function.roots import Roots, roots_of
from migrate.spec.function.values import Described
from migrate.stores.files import content_digest

if TYPE_CHECKING:
    from migrate.spec.conversion_ref import ConversionRef


def with_fingerprint(ref: ConversionRef) -> ConversionRef:
    """The ref with the modules and digests of its function as they are now."""
    if isinstance(ref.function, str):
        modules, code = [ref.function.partition(":")[0]], {}
    else:
        described = Described()
        code = {"": described.digest(ref.function)}
        modules = sorted(filter(None, described.modules))  # a function that `exec` made may have none
    given = [Path(entry) for entry in ref.search_path[:-1]]
    for archive in given:
        if archive.suffix != ".py":
            code |= archive_digests(archive)
    roots = roots_of(ref.search_path, modules)
    listed = [*(each.stem for each in given if each.suffix == ".py"), *filter(None, map(_as_module, ref.files))]
    code |= module_digests(roots, [*modules, *listed])
    for name in ref.files:
        code[name] = file_digest(_beside_spec(ref, name).read_bytes(), is_source=name.endswith(".py"))
    return replace(ref, modules=tuple(modules), code=tuple(sorted(code.items())))


def _as_module(file: str) -> str:
    path = PurePosixPath(file)
    return ".".join(path.with_suffix("").parts) if path.suffix == ".py" else ""


def _beside_spec(ref: ConversionRef, name: str) -> Path:
    return Path(ref.search_path[-1], name)


def tracking_imports(ref: ConversionRef) -> AbstractContextManager[None]:
    """A context to load or call the function in: what it imports there counts as part of it."""
    return nullcontext() if ref.function is None else recording_imports(_key(ref))


def _key(ref: ConversionRef) -> Hashable:
    return ref.function, ref.search_path


def checked_code(ref: ConversionRef) -> dict[str, str]:
    """Digests of what this process has loaded of the function, and of its data. Raises RefusedError for a change."""
    if ref.function is None:
        return {}
    expected = dict(ref.code)
    roots = roots_of(ref.search_path, ref.modules)
    found = loaded_digests(_key(ref), roots, expected) | dict(_data(ref, roots))
    for path, digest in found.items():
        if path not in expected:
            raise RefusedError(
                f"the function loaded the module {path}, which no import statement names: a change of it would go "
                "unnoticed",
                hint=f'import it by a statement, or list it in the spec: [conversion] files = ["{path}"]',
            )
        if expected[path] != digest:
            raise RefusedError(
                f"{path}, which the function is made of, changed during the run",
                hint="restore it and run the same command again: finished chunks are kept; or stateferry replay SPEC "
                "goes on with the changed one, and verifies everything in full",
            )
    return found


def _data(ref: ConversionRef, roots: Roots) -> Iterator[tuple[str, str]]:
    """Digests of the listed data files that this host has; listed modules are checked once they are loaded."""
    for name in ref.files:
        places = [_beside_spec(ref, name), *(Path(root.place, name) for root in roots)]
        file = next((place for place in places if place.is_file()), None)
        if file is not None and not name.endswith(".py"):
            status = file.stat()
            yield name, _digest_of(file, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=64)
def _digest_of(file: Path, mtime_ns: int, size: int) -> str:
    return content_digest(file)


def files_for_executors(ref: ConversionRef) -> list[Path]:
    """The files of the function that executors need: py_files, and those beside the spec."""
    if not isinstance(ref.function, str):
        return []
    check_names_on_executors(ref)
    given, folder = [Path(entry) for entry in ref.search_path[:-1]], Path(ref.search_path[-1])
    package = ref.modules[0].partition(".")[0]
    if (folder / package).is_dir():
        raise SpecError(
            f"the package {package!r} beside the spec does not reach Spark's executors",
            hint="zip it, and name the zip in [conversion] py_files",
        )
    beside = [folder / path for path, _ in ref.code if "/" not in path]
    return [*given, *(file for file in beside if file.is_file() and file not in given)]
