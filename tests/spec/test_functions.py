"""Which function a spec's `module:name` means."""

from __future__ import annotations

from pathlib import Path

from formats import StateRecord
from migrate.spec.function.loading import load_function


def write_module(folder: Path, answer: str) -> tuple[str, ...]:
    folder.mkdir()
    (folder / "orders_conversion.py").write_text(
        f"from dataclasses import replace\n\ndef convert(record):\n    return replace(record, value=b'{answer}')\n"
    )
    return (str(folder),)


def test_two_specs_of_one_process_may_each_have_a_module_of_the_same_name(tmp_path: Path) -> None:
    first = load_function("orders_conversion:convert", write_module(tmp_path / "a", "first"))
    second = load_function("orders_conversion:convert", write_module(tmp_path / "b", "second"))

    record = StateRecord(b"k", b"v")
    assert first(record) == StateRecord(b"k", b"first")
    assert second(record) == StateRecord(b"k", b"second")


def test_the_module_beside_the_spec_goes_before_one_that_python_has(tmp_path: Path) -> None:
    (tmp_path / "tabnanny.py").write_text("def convert(record):\n    return None\n")

    assert load_function("tabnanny:convert", (str(tmp_path),))(StateRecord(b"k", b"v")) is None
