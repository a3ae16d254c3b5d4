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
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import sources
from .ahead import FORMAT, SYSTEM, dimensions, parse
from .arguments import FORMATS

MANIFEST = Path(__file__).parent / "manifest.txt"
TARGET = {
    "NUMBA_CPU_NAME": "x86-64-v3",
    "NUMBA_CPU_FEATURES": "+64bit,+avx,+avx2,+bmi,+bmi2,+cmov,+cx16,+cx8,+f16c,+fma,+fxsr,+lzcnt,+mmx,+movbe,+popcnt,"
    "+sahf,+sse,+sse2,+sse3,+sse4.1,+sse4.2,+ssse3,+xsave",
    "NUMBA_DISABLE_INTEL_SVML": "1",  # a library of vector functions that users may not have
    "PROXSTREAM_PREBUILD": "0",
}

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

; Kernels flatten contiguous arrays only, so that the new stride is the size of an item.
define i32 @numba_attempt_nocopy_reshape(i64 %nd, i64* %dims, i64* %strides, i64 %newnd, i64* %newdims,
                                         i64* %newstrides, i64 %itemsize, i32 %fortran) {
  %flat = icmp eq i64 %newnd, 1
  br i1 %flat, label %possible, label %impossible
possible:
  store i64 %itemsize, i64* %newstrides
  ret i32 1
impossible:
  ret i32 0
}

define void @NRT_MemInfo_call_dtor(i8* %memory) {
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


def read_manifest(manifest: Path) -> list[tuple[str, str]]:
    """Return the versions to compile: a kernel's name and the types of its arguments."""
    lines = manifest.read_text(encoding="utf-8").splitlines()
    return [tuple(line.split(" ")) for line in lines if line and not line.startswith("#")]  # type: ignore[misc]


def shares(versions: list[tuple[str, str]], count: int) -> list[list[tuple[str, str]]]:
    """Deal out versions to processes: those of one module with the same components have most of their code in common.

    What a module's kernels share is compiled once per process, so a group stays together; the largest go first.
    """
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for name, types in versions:
        groups.setdefault((name.rpartition(".")[0], types.partition(")")[0]), []).append((name, types))
    dealt: list[list[tuple[str, str]]] = [[] for _ in range(count)]
    for group in sorted(groups.values(), key=len, reverse=True):
        min(dealt, key=len).extend(group)
    return dealt


def build(folder: Path, manifest: Path = MANIFEST, workers: int | None = None) -> int:
    """Compile everything in a manifest into a folder, in several processes; return how many versions there are."""
    folder.mkdir(parents=True, exist_ok=True)
    count = workers or os.cpu_count() or 1
    folders = [folder / f"share{k}" for k in range(count)]
    command = [sys.executable, "-m", "proxstream.jit.build", str(manifest)]
    started = [
        subprocess.Popen([*command, str(share), str(k), str(count)], env={**os.environ, **TARGET})
        for k, share in enumerate(folders)
    ]
    codes = [process.wait() for process in started]
    if any(codes):
        raise RuntimeError(f"compiling ended with exit codes {codes}")
    total = _join(folder, folders)
    for share in folders:
        for path in (share / "index.json", share / "kernels.bin"):
            path.unlink()
        share.rmdir()
    return total


def _join(folder: Path, parts: list[Path]) -> int:
    """Write one index and one file of object code from those of all processes; return how many versions there are."""
    kernels: dict[str, dict[str, Any]] = {}
    runtime, code = [0, 0], bytearray()
    for share in parts:
        index = json.loads((share / "index.json").read_text())
        for name, versions in index["kernels"].items():
            for record in versions.values():
                record["place"][0] += len(code)
            kernels.setdefault(name, {}).update(versions)
        runtime = [index["runtime"][0] + len(code), index["runtime"][1]]
        code += (share / "kernels.bin").read_bytes()
    (folder / "kernels.bin").write_bytes(code)
    index = {"format": FORMAT, "system": SYSTEM, "sources": sources.digest(), "size": len(code)}
    (folder / "index.json").write_text(json.dumps({**index, "runtime": runtime, "kernels": kernels}))
    for path in (folder, folder / "index.json", folder / "kernels.bin"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return sum(map(len, kernels.values()))


def compile_share(folder: Path, versions: list[tuple[str, str]], progress: Callable[[int], None]) -> None:
    """Compile some versions into a folder; what cannot be compiled is left out with a warning."""
    from .emit import emit_entry, emit_runtime

    gc.disable()  # the compiler makes millions of objects, and a process that ends soon frees them all
    folder.mkdir(parents=True, exist_ok=True)
    code = bytearray(emit_runtime(RUNTIME))
    runtime = [0, len(code)]
    kernels: dict[str, dict[str, Any]] = {}
    for n, (name, types) in enumerate(versions, 1):
        module, _, attribute = name.rpartition(".")
        try:
            made, returned = emit_entry(getattr(importlib.import_module(module), attribute), parse(types))
        except Exception as reason:
            print(f"proxstream: {name} is compiled on first use only: {reason}", file=sys.stderr)
            continue
        kernels.setdefault(name, {})[types] = {
            "frame": frame_format(parse(types)),
            "returns": returned,
            "place": [len(code), len(made)],
        }
        code += made
        progress(n)
    (folder / "kernels.bin").write_bytes(code)
    (folder / "index.json").write_text(json.dumps({"runtime": runtime, "kernels": kernels}))


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


def main(manifest: Path, folder: Path, first: int, count: int) -> None:
    """Compile one share of a manifest; the first process reports progress for all."""
    versions = read_manifest(manifest)
    mine = shares(versions, count)[first]

    def progress(n: int) -> None:
        if first == 0 and (n % 10 == 0 or n == len(mine)):
            done = len(versions) * n // len(mine)
            print(f"proxstream: compiled {done} of {len(versions)} kernels", file=sys.stderr, flush=True)

    compile_share(folder, mine, progress)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        build(Path(sys.argv[1]))
    else:
        main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
