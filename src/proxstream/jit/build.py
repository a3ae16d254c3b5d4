"""Compile the kernels of everyday use ahead: `python -m proxstream.jit.build FOLDER`, when a wheel is built.

The manifest lists them, one version per line: the kernel's full name and the types of its arguments. Each becomes an
object file with one function, `entry(frame)`: it reads the arguments from the slots of the frame, calls the kernel, and
writes what it returns to the slots after them (`ahead` has the other side). All object files are joined in one file
beside an index. The code needs nothing of numba's: the few functions of its runtime that kernels call, which allocate
and release memory, are compiled from `RUNTIME`.
"""

from __future__ import annotations

import gc
import importlib
import json
import multiprocessing
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .. import jit
from . import sources
from .ahead import CODE, FORMAT, INDEX, SYSTEM, TARGET, dimensions, parse
from .arguments import FORMATS

MANIFEST = Path(__file__).parent / "manifest.txt"
ENVIRONMENT = {
    **TARGET,
    "NUMBA_DISABLE_INTEL_SVML": "1",  # a library of vector functions that users may not have
    "PROXSTREAM_PREBUILD": "0",
}

Version = tuple[str, str]  # a kernel's name, and the types of its arguments

# Memory with a count of references, as numba's compiled code expects it: count, destructor, its argument, data, size,
# allocator. `release` is what `ahead` calls for memory that a kernel returned.
RUNTIME = """
declare i8* @malloc(i64)
declare void @free(i8*)

define i8* @NRT_MemInfo_alloc_aligned(i64 %size, i32 %alignment) {
  %step = zext i32 %alignment to i64
  %room = add i64 %size, 48
  %all = add i64 %room, %step
  %memory = call i8* @malloc(i64 %all)
  %failed = icmp eq i8* %memory, null
  br i1 %failed, label %none, label %fill
none:
  ret i8* null
fill:
  %fields = bitcast i8* %memory to i64*
  %address = ptrtoint i8* %memory to i64
  %after = add i64 %address, 47
  %last = add i64 %after, %step
  %mask = sub i64 0, %step
  %data = and i64 %last, %mask
  %field1 = getelementptr i64, i64* %fields, i64 1
  %field2 = getelementptr i64, i64* %fields, i64 2
  %field3 = getelementptr i64, i64* %fields, i64 3
  %field4 = getelementptr i64, i64* %fields, i64 4
  %field5 = getelementptr i64, i64* %fields, i64 5
  store i64 1, i64* %fields
  store i64 0, i64* %field1
  store i64 0, i64* %field2
  store i64 %data, i64* %field3
  store i64 %size, i64* %field4
  store i64 0, i64* %field5
  ret i8* %memory
}

; Kernels reshape contiguous arrays only: each new stride is the size of all that follows.
define i32 @numba_attempt_nocopy_reshape(i64 %nd, i64* %dims, i64* %strides, i64 %newnd, i64* %newdims,
                                         i64* %newstrides, i64 %itemsize, i32 %fortran) {
entry:
  br label %next
next:
  %left = phi i64 [ %newnd, %entry ], [ %axis, %write ]
  %step = phi i64 [ %itemsize, %entry ], [ %larger, %write ]
  %done = icmp eq i64 %left, 0
  br i1 %done, label %end, label %write
write:
  %axis = sub i64 %left, 1
  %stride = getelementptr i64, i64* %newstrides, i64 %axis
  store i64 %step, i64* %stride
  %place = getelementptr i64, i64* %newdims, i64 %axis
  %length = load i64, i64* %place
  %larger = mul i64 %step, %length
  br label %next
end:
  ret i32 1
}

define void @NRT_MemInfo_call_dtor(i8* %memory) {
  call void @free(i8* %memory)
  ret void
}

define i8* @NRT_Allocate(i64 %size) {
  %memory = call i8* @malloc(i64 %size)
  ret i8* %memory
}

define void @NRT_Free(i8* %memory) {
  call void @free(i8* %memory)
  ret void
}

define void @release(i64 %owner) {
  %count = inttoptr i64 %owner to i64*
  %before = atomicrmw sub i64* %count, i64 1 monotonic
  %last = icmp eq i64 %before, 1
  br i1 %last, label %free, label %done
free:
  %memory = inttoptr i64 %owner to i8*
  call void @free(i8* %memory)
  br label %done
done:
  ret void
}
"""


def read_manifest(manifest: Path) -> list[Version]:
    """Return the versions to compile: a kernel's name and the types of its arguments."""
    lines = manifest.read_text(encoding="utf-8").splitlines()
    return [tuple(line.split(" ")) for line in lines if line and not line.startswith("#")]  # type: ignore[misc]


def group(versions: list[Version]) -> list[list[Version]]:
    """Return versions in groups, the largest first: those of a module with equal components share most of their code.

    What they share is compiled once per process, so a group is a task.
    """
    groups: dict[tuple[str, str], list[Version]] = {}
    for name, types in versions:
        groups.setdefault((name.rpartition(".")[0], types.partition(")")[0]), []).append((name, types))
    return sorted(groups.values(), key=lambda found: sum(len(types) for _, types in found), reverse=True)


def build(folder: Path, manifest: Path = MANIFEST, workers: int | None = None) -> int:
    """Compile everything in a manifest into a folder, in several processes; return how many versions there are."""
    versions = read_manifest(manifest)
    kernels: dict[str, dict[str, Any]] = {}
    code, done = bytearray(), 0
    with _environment(ENVIRONMENT), _pool(workers or os.cpu_count() or 1) as pool:
        runtime = pool.submit(compile_runtime)
        for task in as_completed([pool.submit(compile_group, some) for some in group(versions)]):
            for name, types, record, made in task.result():
                kernels.setdefault(name, {})[types] = {**record, "place": [len(code), len(made)]}
                code += made
                done += 1
                if done % 20 == 0 or done == len(versions):
                    print(f"proxstream: compiled {done} of {len(versions)} kernels", file=sys.stderr, flush=True)
        made = runtime.result()
    index = {
        "format": FORMAT,
        "system": SYSTEM,
        "sources": sources.digest(),
        "size": len(code) + len(made),
        "runtime": [len(code), len(made)],
        "kernels": kernels,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CODE).write_bytes(code + made)
    (folder / INDEX).write_text(json.dumps(index))
    return sum(map(len, kernels.values()))


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Let processes that start inside have these variables."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _pool(workers: int) -> ProcessPoolExecutor:
    """Return new processes, which compile and do nothing else."""
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_prepare)


def _prepare() -> None:
    """Do without a search for garbage, as the compiler keeps most of its objects, and without one for a BLAS."""
    gc.disable()
    jit.LOOK_FOR_BLAS = False


def compile_runtime() -> bytes:
    """Return the object code of the runtime."""
    from .emit import emit_runtime

    return emit_runtime(RUNTIME)


def compile_group(versions: list[Version]) -> list[tuple[str, str, dict[str, str], bytes]]:
    """Return name, types, record and object code of versions; what cannot be compiled is left out with a warning."""
    from .emit import emit_entry

    found = []
    for name, types in versions:
        module, _, attribute = name.rpartition(".")
        try:
            made, returned = emit_entry(getattr(importlib.import_module(module), attribute), parse(types))
        except Exception as reason:
            print(f"proxstream: {name} is compiled on first use only: {reason}", file=sys.stderr)
            continue
        found.append((name, types, {"frame": frame_format(parse(types)), "returns": returned}, made))
    return found


def frame_format(types: list[Any]) -> str:
    """Return how struct packs the values of arguments of these types."""
    return "".join(map(_format, types))


def _format(kind: Any) -> str:
    if isinstance(kind, tuple):
        return frame_format(kind[1])
    if kind[0] in "<|":
        n = dimensions(kind)
        return "Q" + "q" * (2 * n if is_strided(kind) else n)
    return FORMATS[kind]


def is_strided(array: str) -> bool:
    """Return whether the strides of an array are in the frame: those of a contiguous one follow from its shape."""
    return "A" in array


if __name__ == "__main__":
    build(Path(sys.argv[1]))
