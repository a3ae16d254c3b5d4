"""python -m benchmarks NAME [options]: run one of the benchmarks."""

from __future__ import annotations

import sys
from importlib import import_module

NAMES = ("online", "quality", "custom_loss")

if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
    sys.exit(f"usage: python -m benchmarks {{{','.join(NAMES)}}} [options]")
import_module(f"benchmarks.{sys.argv[1]}").main(sys.argv[2:])
