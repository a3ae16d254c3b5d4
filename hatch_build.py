"""Build hook: compile the kernels of everyday use when a wheel is built, so that a first command starts at once.

The wheel then is one per operating system and processor, for any version of Python. Where nothing can be compiled (no
numba for this Python, another system, PROXSTREAM_PREBUILD=0) the wheel is plain Python, and kernels are compiled on
first use.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NEWEST_PYTHON = (3, 14)  # that numba has wheels for


def can_compile() -> bool:
    """Return whether this system is one that compiled code is made for."""
    return (
        os.environ.get("PROXSTREAM_PREBUILD") != "0"
        and sys.platform == "linux"
        and platform.machine() == "x86_64"
        and sys.version_info[:2] <= NEWEST_PYTHON
    )


class CompileKernels(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the folder of compiled code to the wheel."""

    def dependencies(self) -> list[str]:
        """Return what compiling needs in the build environment."""
        return ["numba>=0.60", "numpy>=2.0"] if self.target_name == "wheel" and can_compile() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, unless the installation is editable; a failure leaves a wheel of plain Python."""
        if version == "editable" or not can_compile():
            return
        root = Path(self.root)
        folder = Path(self.directory) / "kernels"
        command = [sys.executable, "-m", "proxstream.jit.build", str(folder)]
        path = os.pathsep.join(filter(None, [str(root / "src"), os.environ.get("PYTHONPATH")]))
        try:
            subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=True)
        except (OSError, subprocess.CalledProcessError) as reason:
            self.app.display_warning(f"kernels are not compiled ahead, but on first use: {reason}")
            return
        for file in ("index.json", "kernels.bin"):
            build_data["force_include"][str(folder / file)] = f"proxstream/jit/built/{file}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
