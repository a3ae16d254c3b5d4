"""What README and docs show first runs on code compiled ahead alone: numba cannot be imported in these processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from proxstream.jit import describe

compiled_ahead = pytest.mark.skipif("compiled ahead" not in describe(), reason=describe())

COMMAND = "import sys; sys.modules['numba'] = None; from proxstream.cli import main; sys.exit(main(sys.argv[1:]))"
SCRIPT = """
import sys
sys.modules["numba"] = None
import numpy as np, proxstream as ps
from scipy import sparse
from sklearn.datasets import load_digits
X, y = load_digits(return_X_y=True)
for Z in (X, X.astype(np.float32), sparse.csr_matrix(X)):
    model = ps.StreamClassifier(penalty=ps.L1(0.01)).fit(Z, y > 4)
    model.partial_fit(Z[:5], y[:5] > 4)
    model.predict_proba(Z), model.coef_, model.score(Z, y > 4)
best = ps.CertifiedClassifier(penalty=ps.L1(0.01), tol=1e-6).fit(X, y > 4)
ps.CertifiedClassifier(penalty=ps.L2(0.01)).fit(X, y > 4)
ps.certificate(model, X, y > 4)
ps.StreamRegressor(penalty=ps.L1(0.01)).fit(X, y).predict(X)
ps.CertifiedRegressor(penalty=ps.L1(0.01)).fit(X, y)
ps.StreamClassifier(penalty=ps.L1(0.01)).fit(X, y).predict(X)
for algorithm in (ps.FTRLProximal(), ps.AdaGrad(), ps.RDA()):
    ps.StreamClassifier(algorithm=algorithm, penalty=ps.L1(0.01)).fit(X, y > 4).predict(X)
marked = sparse.csr_matrix(X)
for array in (marked.data, marked.indices, marked.indptr, y):  # as columns of frames and files mapped into memory are
    array.flags.writeable = False
ps.StreamRegressor(penalty=ps.L1(0.01)).fit(marked, y).predict(marked)
ps.CertifiedRegressor(penalty=ps.L1(0.01)).fit(marked, y)
"""


def run(code: str, *words: str, cwd: Path) -> str:
    command = [sys.executable, "-W", "ignore", "-c", code, *words]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with 200 rows in every format that the README names first."""
    rng = np.random.default_rng(0)
    x = np.round(rng.normal(size=(200, 4)), 3)
    labels = np.where(x[:, 0] + x[:, 1] > 0.0, 1, -1)
    svm = [f"{y} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(row)) for y, row in zip(labels, x, strict=True)]
    (tmp_path / "a.svm").write_text("\n".join(svm) + "\n")
    vw = [f"{y} |f a:{row[0]} b:{row[1]} word |g c:{row[2]}" for y, row in zip(labels, x, strict=True)]
    (tmp_path / "a.vw").write_text("\n".join(vw) + "\n")
    csv = [
        f"{'yes' if y > 0 else 'no'},{row[0]},{row[1]},c{i % 3}"
        for i, (y, row) in enumerate(zip(labels, x, strict=True))
    ]
    (tmp_path / "a.csv").write_text("bought,price,age,city\n" + "\n".join(csv) + "\n")
    columns = {
        "label": (labels > 0).astype(np.int64),
        "price": pa.array(x[:, 0], mask=x[:, 1] > 1.0),  # with nulls
        "age": pa.array(np.round(100.0 * x[:, 1]).astype(np.int64), mask=x[:, 2] > 1.0),
        "city": pa.array([None if i % 7 == 0 else f"c{i % 3}" for i in range(200)]),
    }
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    return tmp_path


@pytest.mark.default_cases(2)
@compiled_ahead
@pytest.mark.parametrize(
    ("file", "options"), [("a.parquet", ""), ("a.svm", "--l1 0.001"), ("a.vw", ""), ("a.csv", "--label bought")]
)
def test_files_to_models_and_predictions(file: str, options: str, folder: Path) -> None:
    run(COMMAND, "train", file, "-o", "m.psm", *options.split(), cwd=folder)
    lines = run(COMMAND, "predict", "m.psm", file, "--predict", "probabilities", cwd=folder)
    assert len(lines.splitlines()) == 200
    assert "200" in run(COMMAND, "evaluate", "m.psm", file, cwd=folder)
    assert run(COMMAND, "inspect", "m.psm", "--top", "3", cwd=folder)


@compiled_ahead
def test_a_model_is_certified(folder: Path) -> None:
    run(COMMAND, "train", "a.svm", "-o", "m.psm", "--l1", "0.001", cwd=folder)
    assert "gap" in run(COMMAND, "certify", "m.psm", "a.svm", cwd=folder)


@pytest.mark.default_cases(1)
@compiled_ahead
@pytest.mark.parametrize("algorithm", ["ftrl_proximal", "adagrad", "rda", "certified"])
def test_the_usual_algorithms(algorithm: str, folder: Path) -> None:
    run(COMMAND, "train", "a.svm", "-o", "m.psm", "--algorithm", algorithm, "--l1", "0.001", cwd=folder)


@compiled_ahead
def test_the_demo(tmp_path: Path) -> None:
    assert "FTRLProximal" in run(COMMAND, "demo", "--rows", "40", cwd=tmp_path)


@compiled_ahead
def test_estimators(tmp_path: Path) -> None:
    run(SCRIPT, cwd=tmp_path)
