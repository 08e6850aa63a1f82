"""Which function a spec's `module:name` means."""

import py_compile
from pathlib import Path

import pytest

from formats import Function, StateRecord
from migrate import SpecError
from migrate.spec.conversion_ref import ConversionRef
from migrate.spec.fingerprint import with_fingerprint
from migrate.spec.user_function import load_function
from tests.support import RAW


def write_module(folder: Path, answer: str) -> Path:
    folder.mkdir()
    (folder / "orders_conversion.py").write_text(
        f"from dataclasses import replace\n\ndef convert(record):\n    return replace(record, value=b'{answer}')\n"
    )
    return folder


def load(name: str, folder: Path) -> Function:
    return load_function(with_fingerprint(ConversionRef(RAW, RAW, function=name, search_path=(str(folder),))))


def test_two_specs_of_one_process_may_each_have_a_module_of_the_same_name(tmp_path: Path) -> None:
    first = load("orders_conversion:convert", write_module(tmp_path / "a", "first"))
    second = load("orders_conversion:convert", write_module(tmp_path / "b", "second"))
    record = StateRecord(b"k", b"v")
    assert first(record) == StateRecord(b"k", b"first")
    assert second(record) == StateRecord(b"k", b"second")


def test_the_module_beside_the_spec_goes_before_one_that_python_has(tmp_path: Path) -> None:
    (tmp_path / "tabnanny.py").write_text("def convert(record):\n    return None\n")
    assert load("tabnanny:convert", tmp_path)(StateRecord(b"k", b"v")) is None


def test_a_module_without_its_source_is_refused(tmp_path: Path) -> None:
    source = write_module(tmp_path / "a", "first") / "orders_conversion.py"
    py_compile.compile(str(source), str(source.with_suffix(".pyc")))
    load("orders_conversion:convert", tmp_path / "a")
    source.unlink()
    with pytest.raises(SpecError, match=r"orders_conversion\.pyc, which has no source") as caught:
        load("orders_conversion:convert", tmp_path / "a")
    assert caught.value.hint == "put the .py file there that it was compiled from"
