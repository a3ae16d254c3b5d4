"""Run a command with the arithmetic of another processor: `python .ci/as_processor.py avx2 python -m pytest`.

The last bit of a sum depends on the instructions at hand: how wide the vectors of a matrix product are, whether a
multiplication and an addition are rounded once (FMA) or twice, which polynomial stands for an exponential. Four
libraries choose by the processor they find, and each can be made to choose as on a lesser one:

    OpenBLAS   OPENBLAS_CORETYPE                          matrix products and factorizations of NumPy and SciPy
    NumPy      NPY_DISABLE_CPU_FEATURES                   its own loops
    numba      NUMBA_CPU_NAME, NUMBA_CPU_FEATURES         our kernels
    glibc      GLIBC_TUNABLES                             exp, log, pow in kernels and in Python

Beside them, what else must not matter: the number of BLAS threads, the seed of hashes, the locale and the time zone.
"""

from __future__ import annotations

import os
import subprocess
import sys

SSE2 = "+64bit +cmov +cx8 +fxsr +mmx +sse +sse2"
SSE4 = f"{SSE2} +cx16 +sahf +popcnt +sse3 +sse4.1 +sse4.2 +ssse3"
AVX2 = f"{SSE4} +avx +avx2 +bmi +bmi2 +f16c +fma +lzcnt +movbe +xsave"  # as wheels are compiled for

# OpenBLAS's kernels, numba's processor and its features, whether NumPy and glibc may use AVX2 (AVX-512 they may not),
# and the number of BLAS threads.
PROCESSORS = {
    "avx2": ("Haswell", "x86-64-v3", AVX2, True, 1),
    "zen": ("Zen", "x86-64-v3", AVX2, True, 4),
    "sse4": ("Nehalem", "x86-64-v2", SSE4, False, 4),
    "generic": ("Prescott", "generic", SSE2, False, 1),
    "avx512": ("SkylakeX", None, None, None, 4),
}


def numpy_features(avx2: bool) -> str:
    """Return the names of the instruction sets that NumPy must not use; it warns of names it does not know."""
    without = ("AVX512", "X86_V4") if avx2 else ("AVX", "FMA", "F16", "X86_V3", "X86_V4")
    code = "from numpy{}._multiarray_umath import __cpu_dispatch__ as names; print(*names)"
    for core in ("._core", ".core"):
        done = subprocess.run([sys.executable, "-c", code.format(core)], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return " ".join(name for name in done.stdout.split() if name.startswith(without))
    raise SystemExit("NumPy does not list its instruction sets")


def environment(name: str) -> dict[str, str]:
    """Return the variables that stand for a processor."""
    blas, cpu, features, avx2, threads = PROCESSORS[name]
    chosen = {"OPENBLAS_CORETYPE": blas, "OPENBLAS_NUM_THREADS": str(threads), "TZ": "Pacific/Chatham"}
    if cpu is None:
        return chosen
    without = ["AVX512F", "AVX512VL", *(() if avx2 else ("AVX2", "FMA", "FMA4", "AVX"))]
    tunables = ",".join(f"-{name}" for name in without)
    return {
        **chosen,
        "NUMBA_CPU_NAME": cpu,
        "NUMBA_CPU_FEATURES": features.replace(" ", ","),
        "NPY_DISABLE_CPU_FEATURES": numpy_features(avx2),
        "GLIBC_TUNABLES": f"glibc.cpu.hwcaps={tunables}",
    }


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in PROCESSORS:
        raise SystemExit(f"usage: as_processor.py {'|'.join(PROCESSORS)} COMMAND...")
    os.execvpe(sys.argv[2], sys.argv[2:], {**os.environ, **environment(sys.argv[1])})
