"""Loops as machine code: compiled by numba once for each kind of CPU, and kept on the disk for later processes.

Those need no numba, which takes longer to load than many a chunk. What is kept is an object file of LLVM's, behind its
own SHA-256; the compiled code refers to nothing but the C library's functions that move and compare memory.
"""

from __future__ import annotations

import ctypes
import logging
import pkgutil
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import llvmlite.binding as llvm

from migrate.stores.files import write_durably
from migrate.stores.rocksdb.c_library import cache_directory

_LOG = logging.getLogger(__name__)
_PACKAGE = __name__.rpartition(".")[0]
_SOURCES = ("raw_memory", "words", "digests", "hashing", "interpreter", "loop", "gather")
_NAME = "stateferry_loop"
_DIGEST_SIZE = 32
Loop = Literal["loop", "gather"]
"""The module of a loop."""
_FROM_C = {"memcmp", "memcpy", "memmove"}
_compiling = Lock()


def compiled(name: Loop = "loop") -> Callable[[int], int]:
    """The loop of a module, which takes the address of a block. To compile one takes 1 to 3 s, to load it 0.1 s."""
    with _compiling:
        return _compiled(name)


@cache
def _compiled(name: Loop) -> Callable[[int], int]:
    file = cache_directory() / f"{name}-{_key()}.o"
    code = _kept(file)
    if code is None:
        code = _compile(name)
        _keep(file, code)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 2, ctypes.c_int64)(
        engine.get_function_address(_NAME)
    )

    def run(block: int) -> int:
        outcome, unused = ctypes.c_int64(), ctypes.c_void_p()
        if status := function(ctypes.addressof(outcome), ctypes.addressof(unused), block):  # without Python's lock
            raise RuntimeError(f"the compiled loop has ended by itself ({status})")  # no outcome, so no end either
        return outcome.value

    run.engine = engine  # type: ignore[attr-defined]  # which owns the code
    return run


def _kept(file: Path) -> bytes | None:
    """The code in a file; None: there is none, or not what was written."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    code = content[_DIGEST_SIZE:]
    return code if sha256(code).digest() == content[:_DIGEST_SIZE] else None


def _keep(file: Path, code: bytes) -> None:
    try:
        write_durably(file, sha256(code).digest() + code)
    except OSError as error:
        _LOG.warning("the compiled loop cannot be kept for later processes: %s", error)


def _compile(name: Loop) -> bytes:
    from numba import types

    from migrate.engine.native import gather, loop

    run: Any = (loop if name == "loop" else gather).run
    signature = types.int64(types.int64)
    run.compile(signature)
    module = llvm.parse_assembly(run.inspect_llvm(signature.args))
    others = {each.name for each in module.functions if each.is_declaration and not each.name.startswith("llvm.")}
    if not others <= _FROM_C:  # a process without numba would end by a signal
        raise RuntimeError(f"the compiled loop refers to {', '.join(sorted(others - _FROM_C))}")
    (function,) = (
        each for each in module.functions if not each.is_declaration and f"{len(name)}{name}3run" in each.name
    )
    function.name = _NAME
    code: bytes = _machine().emit_object(module)
    return code


def _machine() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target, cpu = llvm.Target.from_default_triple(), llvm.get_host_cpu_name()
    features = llvm.get_host_cpu_features().flatten()
    return target.create_target_machine(cpu, features, opt=3, reloc="pic", codemodel="jitdefault", jit=True)


def _key() -> str:
    """Machine code is for one version of the compiler and of the sources, and for one kind of CPU."""
    parts = [version("numba"), version("llvmlite"), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()]
    sources = [pkgutil.get_data(_PACKAGE, f"{name}.py") or b"" for name in _SOURCES]  # also from a zip file
    return sha256(b"\0".join([*(part.encode() for part in parts), *sources])).hexdigest()[:32]
