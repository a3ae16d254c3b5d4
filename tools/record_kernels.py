"""Write the manifest of kernels that are compiled ahead: `python tools/record_kernels.py`.

Everyday use of the command line and the estimators is played on small data, and the types of every call of a kernel are
recorded. `python tools/record_kernels.py SCRIPT` prints what a script of yours calls, to choose lines from.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits

import proxstream as ps
from proxstream.cli import main as proxstream
from proxstream.core.algorithms.auto_state import SCALES
from proxstream.jit import compile
from proxstream.jit.arguments import flatten
from proxstream.jit.build import MANIFEST

HEADER = """\
# Versions of kernels that are compiled when a wheel is built: the kernel, and the types of its arguments (see
# arguments.py). Written by tools/record_kernels.py.
"""
COMMANDS = """
train a.svm -o m.psm --l1 0.001
predict m.psm a.svm --predict probabilities -o out.txt
evaluate m.psm a.svm
inspect m.psm --top 5
certify m.psm a.svm
convert a.svm a.psr
train a.psr -o m.psm
train a.svm -o m.psm --l1 auto
train a.svm -o m.psm --algorithm ftrl_proximal --l1 0.001
train a.svm -o m.psm --algorithm adagrad --l1 0.001
train a.svm -o m.psm --algorithm rda --l1 0.001
train a.svm -o m.psm --algorithm certified --l1 0.001
train a.svm -o m.psm --algorithm certified --l2 0.001
train a.svm -o m.psm --holdout-every 10 --passes 3
train a.svm -o m.psm --l1 auto --holdout-every 10 --passes 2
train a.svm -o m.psm --algorithm ftrl_proximal --l1 auto
train numbers.svm -o m.psm --loss squared --l1 auto
train a.vw -o m.psm --l1 auto
train numbers.svm -o m.psm --loss squared --l1 0.001
predict m.psm numbers.svm -o out.txt
evaluate m.psm numbers.svm
certify m.psm numbers.svm
train classes.svm -o m.psm --loss softmax --classes 1,2,3
predict m.psm classes.svm -o out.txt
evaluate m.psm classes.svm
train a.vw -o m.psm
predict m.psm a.vw -o out.txt
evaluate m.psm a.vw
train a.vw -o m.psm --algorithm ftrl_proximal
train t.csv -o m.psm --label bought
predict m.psm t.csv -o out.txt
evaluate m.psm t.csv
train t.csv -o m.psm --label bought --no-standardize
train t.csv -o m.psm --label bought --cross city*age
train t.jsonl -o m.psm --label bought
predict m.psm t.jsonl -o out.txt
evaluate m.psm t.jsonl
train t.parquet -o m.psm --label bought
predict m.psm t.parquet -o out.txt
evaluate m.psm t.parquet
train t.parquet -o m.psm --label bought --no-standardize
demo
"""


def write_files(n: int = 1500, d: int = 200) -> None:
    """Write rows of every format to the current folder."""
    rng = np.random.default_rng(1)
    w = rng.normal(size=d) * (rng.random(d) < 0.1)
    lines: dict[str, list[str]] = {name: [] for name in ("a.svm", "numbers.svm", "classes.svm", "a.vw")}
    for _ in range(n):
        j, x = np.sort(rng.choice(d, 12, replace=False)), np.round(rng.normal(size=12), 3)
        s = float(x @ w[j] + 0.3 * rng.normal())
        y, row = 1 if s > 0.0 else -1, " ".join(f"{a + 1}:{b}" for a, b in zip(j, x, strict=True))
        named = " ".join(f"w{a}:{b}" for a, b in zip(j, x, strict=True))
        lines["a.svm"].append(f"{y} {row}")
        lines["numbers.svm"].append(f"{s:.4f} {row}")
        lines["classes.svm"].append(f"{1 + (s > -0.3) + (s > 0.3)} {row}")
        lines["a.vw"].append(f"{y} |f {named} |g c{j[0]} long_name_{j[1]}")
    for name, rows in lines.items():
        Path(name).write_text("\n".join(rows) + "\n")
    columns = {
        "bought": np.where(rng.random(n) < 0.4, "yes", "no").tolist(),
        "age": rng.integers(18, 90, n).tolist(),
        "price": np.round(100 * rng.random(n), 2).tolist(),
        "city": rng.choice(["Aachen", "Bern", "Celle"], n).tolist(),
    }
    table = pa.table(columns)
    pyarrow.parquet.write_table(table, "t.parquet")
    pyarrow.csv.write_csv(table, "t.csv")
    Path("t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


def use_estimators(n: int = 300, d: int = 12) -> None:
    """Fit and use the estimators with the usual settings."""
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(n, d)), rng.normal(size=d) * (rng.random(d) < 0.4)
    z = X @ w + rng.normal(size=n)
    y, classes = z > 0.0, np.digitize(z, [-1.0, 1.0])
    l1, l2, both = ps.L1(0.01), ps.L2(0.01), ps.ElasticNet(0.01, 0.01)
    for algorithm in (None, ps.FTRLProximal(), ps.AdaGrad(), ps.RDA()):
        use(ps.StreamClassifier(algorithm=algorithm, penalty=l1), X, y)
    use(ps.StreamClassifier(penalty=l1), X.astype(np.float32), y)
    use(ps.StreamClassifier(penalty=l1), sparse.csr_matrix(X), y)
    use(ps.StreamClassifier(loss="hinge", penalty=l1), X, y)
    use(ps.StreamRegressor(penalty=l1), X, z)
    use(ps.StreamRegressor(algorithm=ps.FTRLProximal(), penalty=l1), X, z)
    use(ps.StreamClassifier(penalty=l1), X, classes, certify=False)
    ps.StreamPathClassifier().fit(X, y)
    ps.StreamPathRegressor().fit(X, z)
    for penalty in (l1, l2, both):
        use(ps.CertifiedClassifier(penalty=penalty), X, y)
        use(ps.CertifiedRegressor(penalty=penalty), X, z)
    use(ps.CertifiedClassifier(penalty=l1), sparse.csr_matrix(X), y)
    use(ps.CertifiedClassifier(loss="hinge", penalty=l2), X, y)
    images, digits = load_digits(return_X_y=True)  # of README: sparse rows of many features
    use(ps.StreamClassifier(penalty=l1), images, digits > 4)
    use(ps.CertifiedClassifier(penalty=l1, tol=1e-6), images, digits > 4)
    use(ps.CertifiedRegressor(penalty=l1), images, digits)
    words = sparse.random(3000, 8000, 0.005, "csr", random_state=0)  # text: more columns than rows
    topic = words @ np.where(rng.random(8000) < 0.1, rng.normal(size=8000), 0.0) > 0.0
    for penalty in (ps.L1(1e-3), ps.L1(1e-4), ps.L2(1e-4)):
        use(ps.CertifiedClassifier(penalty=penalty), words, topic)
    for penalty in (l2, both):
        use(ps.SDCAClassifier(penalty=penalty), X, y)
        use(ps.SDCARegressor(penalty=penalty), X, z)


def use(model: Any, X: Any, y: Any, certify: bool = True) -> None:
    """Fit a model, look at it, predict and certify; the default algorithm with each scale that it may keep."""
    if getattr(model, "algorithm", "") is None:
        for scale in SCALES:
            use(clone(model).set_params(algorithm=ps.AutoFTRL(scale=scale)), X, y, certify)
    model.fit(X, y)
    model.predict(X)
    model.score(X, y)
    _ = model.coef_
    if hasattr(model, "predict_proba"):
        model.predict_proba(X)
    if hasattr(model, "partial_fit"):
        model.partial_fit(X[:5], y[:5])
    if certify:
        ps.certificate(model, X, y)


def everyday() -> None:
    """Play the commands, with each scale that the default may keep, and the estimators."""
    os.chdir(tempfile.mkdtemp())
    write_files()
    for scale in (*SCALES, "auto"):
        for command in COMMANDS.strip().splitlines():
            words = command.split()
            words += ["--scale", scale] if words[0] == "train" and "--algorithm" not in words else []
            if proxstream(words):
                sys.exit(f"proxstream {' '.join(words)} failed")
    use_estimators()


def main() -> None:
    """Record what is called, and write the manifest or print it."""
    seen: dict[str, None] = {}
    call = compile.Kernel.__call__

    def recorded_call(kernel: compile.Kernel, *arguments: Any) -> Any:
        types, _ = flatten(arguments)
        if "?" not in types:
            seen[f"{kernel.__module__}.{kernel.__name__} {types}"] = None
        return call(kernel, *arguments)

    compile.Kernel.__call__ = recorded_call  # type: ignore[method-assign]
    warnings.simplefilter("ignore")
    if len(sys.argv) > 1:
        runpy.run_path(sys.argv[1], run_name="__main__")
        print(*sorted(seen), sep="\n")
    else:
        everyday()
        MANIFEST.write_text(HEADER + "".join(line + "\n" for line in sorted(seen)))


if __name__ == "__main__":
    main()
