"""The package itself: names load on demand, heavy libraries stay out, imports between rooms go one way."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import proxstream as ps

SOURCE = Path(ps.__file__).parent


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_importing_the_package_imports_no_heavy_library() -> None:
    code = "import sys, proxstream; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    loaded = set(run(code).split())
    assert "proxstream" in loaded
    assert loaded.isdisjoint({"numpy", "scipy", "numba", "sklearn", "pandas", "pyarrow", "typer", "rich"})


def test_a_whole_game_needs_neither_numba_nor_scikit_learn() -> None:
    code = (
        "import sys, proxstream as ps\n"
        "ledger = ps.Regret(ps.OnlineLearner(ps.RDA(), ps.L1(0.1), dim=2))\n"
        "ledger.learn([1.0, 2.0], 1, 'logistic'); ledger.bound([0.0, 0.0])\n"
        "print(*{'numba', 'sklearn'} & set(sys.modules))"
    )
    assert run(code) == ""


def test_rooms_agree_with_what_type_checkers_see() -> None:
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    seen: dict[str | None, set[str]] = {
        node.module: {alias.name for alias in node.names} for node in block.body if isinstance(node, ast.ImportFrom)
    }
    assert seen.pop(None) == set(ps._ROOMS)
    assert seen == {room: set(names) for room, names in ps._ROOMS.items()}


@pytest.mark.parametrize("name", ps.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(ps, name) is not None
    assert name in dir(ps)


def test_a_name_is_the_same_object_as_in_its_room() -> None:
    for room, names in ps._ROOMS.items():
        for name in names:
            assert getattr(ps, name) is getattr(getattr(ps, room), name)


def test_public_names_are_unique() -> None:
    assert len(set(ps.__all__)) == len(ps.__all__)


def test_an_unknown_name_is_an_attribute_error_that_tells_it() -> None:
    with pytest.raises(AttributeError, match=r"'proxstream' has no attribute 'Lasso'"):
        _ = ps.Lasso


def test_registered_algorithms_and_penalties_are_public() -> None:
    public = set(ps.__all__)
    assert {kind.__name__ for kind in ps.algorithms.ALGORITHMS.values()} <= public
    assert {kind.__name__ for kind in ps.penalties.PENALTIES.values()} <= public
    assert set(ps.losses.names()) <= public


def test_version_is_that_of_the_installed_package() -> None:
    assert ps.__version__ == version("proxstream")


def test_the_package_is_typed() -> None:
    assert (SOURCE / "py.typed").is_file()


# Who may import whom, beside itself. A room that is not listed may be imported by none of these.
MAY_IMPORT = {
    "_checks": set(),
    "losses": {"_checks"},
    "penalties": {"_checks"},
    "geometries": {"_checks", "penalties"},
    "algorithms": {"_checks", "penalties", "geometries", "losses"},
    "online": {"_checks", "penalties", "geometries", "losses", "algorithms"},
}


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_imports_between_rooms_go_one_way(room: str) -> None:
    place = SOURCE / room
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    assert files
    for file in files:
        inside = file.relative_to(SOURCE).with_suffix("").parts
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            for target in _imported(node, inside):
                assert target in MAY_IMPORT[room] | {room}, f"{file.name}:{node.lineno} imports {target}"


def _imported(node: ast.AST, inside: tuple[str, ...]) -> list[str]:
    """Tell the rooms that an import statement of the module `inside` reaches into."""
    if isinstance(node, ast.Import):
        return [name.name.split(".")[1] for name in node.names if name.name.startswith("proxstream.")]
    if not isinstance(node, ast.ImportFrom):
        return []
    if node.level:
        path = [*inside[: len(inside) - node.level], *(node.module or "").split(".")]
    elif (node.module or "").split(".")[0] == "proxstream":
        path = (node.module or "").split(".")[1:]
    else:
        return []
    path = [part for part in path if part]
    return [path[0]] if path else [name.name for name in node.names]
