"""python -m benchmarks NAME [options]: run one of the benchmarks."""

from __future__ import annotations

import os
import sys
from importlib import import_module

NAMES = (
    "online",
    "batch",
    "quality",
    "defaults",
    "custom_loss",
    "stream",
    "start",
    "fuzz",
    "fuzz_model",
    "cluster",
    "row_cache",
    "standardize",
    "path",
    "versions",
    "certificates",
)

if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
    sys.exit(f"usage: python -m benchmarks {{{','.join(NAMES)}}} [options]")
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # the number of threads is what the benchmark sets, not what a BLAS takes
import_module(f"benchmarks.{sys.argv[1]}").main(sys.argv[2:])
