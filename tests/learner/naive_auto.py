"""AutoFTRL from its formulas: dictionaries and loops, one number at a time, nothing shared with the package.

Run as a program with NUMBA_DISABLE_JIT=1 it plays the compiled engine's code, uncompiled, against both these loops and
the dense learner over all losses, penalties, penalty weights and scales, and prints what differs.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from itertools import islice
from typing import Any

import numpy as np

import proxstream as ps
from proxstream.data.rowblock import as_block

D, CLASSES = 10, 3
REPEATED = 15  # rows that are learned once more at the end


def sigmoid(t):
    return 1 / (1 + math.exp(-t)) if t > 0 else math.exp(t) / (1 + math.exp(t))


def softmax(p, y):
    e = [math.exp(v - max(p)) for v in p]
    return [v / sum(e) - (k == y) for k, v in enumerate(e)]


def multiclass_hinge(p, y):
    violation = [0.0 if k == y else 1 + v - p[y] for k, v in enumerate(p)]
    worst = violation.index(max(violation))
    return [(k == worst) - float(k == y) if max(violation) > 0 else 0.0 for k in range(len(p))]


SLOPES: dict[str, Any] = {
    "logistic": lambda p, y: [-y * sigmoid(-y * p[0])],
    "hinge": lambda p, y: [-y if y * p[0] < 1 else 0.0],
    "squared": lambda p, y: [p[0] - y],
    "absolute": lambda p, y: [float(np.sign(p[0] - y))],
    "huber": lambda p, y: [min(max(p[0] - y, -1.0), 1.0)],
    "poisson": lambda p, y: [math.exp(p[0]) - y],
    "softmax": softmax,
    "multiclass_hinge": multiclass_hinge,
}
BINARY, MULTICLASS = ("logistic", "hinge"), ("softmax", "multiclass_hinge")


class Naive:
    """AutoFTRL for rows given as dictionaries."""

    def __init__(
        self,
        loss,
        l1=0.0,
        l2=0.0,
        lo=-math.inf,
        hi=math.inf,
        *,
        once=False,
        scale="feature",
        intercept=True,
        track=False,
    ):
        self.loss, self.l1, self.l2, self.lo, self.hi = loss, l1, l2, lo, hi
        self.once, self.scale, self.intercept = once, scale, intercept
        self.high_b = 7 if track else 0
        self.lam0 = 0.05 if scale == "feature" else 0.03
        self.classes = CLASSES if loss in MULTICLASS else 1
        self.z, self.r, self.s = {}, {}, {}  # by (feature, class), and by feature; the intercept is feature -1
        self.a, self.c, self.b = 0.0, 0.0, -1.0
        self.qa, self.qc, self.qb = 1.0, 1.0, 1.0
        self.recent = [0.0] * self.classes
        self.row_sizes, self.values = [], []
        self.k, self.y = 0.0, [0.0]
        self.G = 0.0

    def units(self):
        if self.loss in BINARY or self.loss in MULTICLASS:
            return 1.0, 1.0
        P = max(map(abs, self.y)) if self.loss != "poisson" else 0.0
        return P or 1.0, self.G or 1.0

    def shared(self):
        P, G = self.units()
        track = math.exp(max(self.b, 0))
        R = sum(self.row_sizes) / len(self.row_sizes) if self.row_sizes else 1.0
        return P * math.exp(self.a) * track / math.sqrt(R), G * 0.5 * math.exp(self.c), self.lam0 / G / track

    def floor(self):
        sizes = [s for j, s in self.s.items() if j != -1]
        return 2 * math.exp(sum(map(math.log, sizes)) / len(sizes)) if sizes else 0.0

    def rms(self):
        return math.sqrt(sum(v * v for v in self.values) / len(self.values)) if self.values else 0.0

    def st(self, j, S):
        if j == -1:
            return 1.0
        if self.scale == "global":
            return S
        s = self.s[j]
        if s >= S:
            return s
        n = sum(self.r.get((j, k), 0.0) ** 2 for k in range(self.classes)) / (s * self.units()[1]) ** 2
        return max(s, S / (1 + n) ** 4)

    def weight(self, j, k):
        """Return w and -dw/dc."""
        kappa, beta, lam = self.shared()
        z, r = self.z.get((j, k), 0.0), self.r.get((j, k), 0.0)
        if z == 0.0:
            return 0.0, 0.0
        amount = 0.0 if j == -1 else (1.0 if self.once else self.k)
        st = self.st(j, self.floor() if self.scale == "feature" else self.rms())
        sigma = st * (beta * st + r) + lam * r * r
        soft = math.copysign(max(abs(z) - amount * self.l1, 0.0), z)
        w = -soft / (sigma / kappa + amount * self.l2)
        if j != -1:
            w = min(max(w, self.lo), self.hi)
        return w, w * beta * st * st / (sigma + kappa * amount * self.l2)

    def predict(self, x):
        return [sum(self.weight(j, k)[0] * v for j, v in x.items()) for k in range(self.classes)]

    def learn(self, x, y, c=1.0, *, repeated=False):
        """Learn one row and return the prediction before it; one learned before moves a, b and c no more."""
        x = {j: v for j, v in x.items() if v != 0.0} | ({-1: 1.0} if self.intercept else {})
        p = self.predict(x)
        if c == 0.0:
            return p
        kappa, _, lam = self.shared()
        S = self.floor() if self.scale == "feature" else self.rms()
        P, G = self.units()
        regression = self.loss not in BINARY and self.loss not in MULTICLASS
        at = [min(max(p[0], min(self.y)), max(self.y))] if regression and self.loss != "poisson" else p
        g = [c * v for v in SLOPES[self.loss](at, y)]
        w = {(j, k): self.weight(j, k) for j in x for k in range(self.classes)}
        qa = sum(g[k] * p[k] for k in range(self.classes)) / (P * G)
        qc = -sum(g[k] * w[j, k][1] * x[j] for j in x for k in range(self.classes)) / (P * G)
        qb = -sum(g[k] * self.recent[k] for k in range(self.classes)) / G**2
        before = {j: self.s.get(j) for j in x}
        for j, v in x.items():
            self.s[j] = max(self.s.get(j, 0.0), abs(v))
            if j != -1:
                self.values.append(v)
        for j, v in x.items():
            st = self.st(j, S)
            increments = []
            for k in range(self.classes):
                r = self.r.get((j, k), 0.0)
                root = math.sqrt(r * r + g[k] ** 2 * v * v)
                move = (st * (root - r) + lam * (root * root - r * r)) / kappa * w[j, k][0]
                increments.append((g[k] * v - move, root))
            for k, (dz, root) in enumerate(increments):
                self.z[j, k] = self.z.get((j, k), 0.0) + dz
                self.r[j, k] = root
        assert all(old is None or self.s[j] >= old for j, old in before.items())
        if not repeated:
            self.qa, self.qb, self.qc = self.qa + qa * qa, self.qb + qb * qb, self.qc + qc * qc
            self.a = min(max(self.a - 0.2 * qa / math.sqrt(self.qa), -7), 7)
            self.b = min(max(self.b - 0.5 * qb / math.sqrt(self.qb), -1), self.high_b)
            self.c = min(max(self.c - 1.0 * qc / math.sqrt(self.qc), -7), 5)
        self.recent = [0.5 * m + 0.5 * v for m, v in zip(self.recent, g, strict=True)]
        rms = self.rms()
        self.row_sizes.append(
            1 + sum((v / (self.s[j] if self.scale == "feature" else rms)) ** 2 for j, v in x.items() if j != -1)
        )
        self.k += c
        if regression:
            self.y.append(y)
            self.G = max(self.G, abs(SLOPES[self.loss]([0.0], y)[0]))
        return p

    def weights(self, features=D):
        return np.array([[self.weight(j, k)[0] for k in range(self.classes)] for j in range(features)])


def play(features, loss, **settings):
    """Yield the weights to play and be sent the examples."""
    naive = Naive(loss, intercept=False, **settings)
    while True:
        weights = naive.weights(features)
        x, y = yield weights if naive.classes > 1 else weights[:, 0]
        naive.learn({j: float(v) for j, v in enumerate(x)}, y)


def stream(loss, seed, n=40, weighted=True):
    """Rows of wild scales, sparse, with features that grow, one that comes late and one that never comes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) * (rng.random((n, D)) < 0.4) * 10.0 ** rng.integers(-3, 4, D)
    X *= np.linspace(0.2, 1.0, n)[:, None]
    X[: n // 2, D - 2] = 0.0
    X[:, D - 1] = 0.0
    if loss in MULTICLASS:
        y = rng.integers(0, CLASSES, n).astype(float)
    elif loss in BINARY:
        y = np.where(X[:, 0] / 10.0 + rng.normal(size=n) > 0, 1.0, -1.0)
    else:
        y = rng.integers(0, 9, n).astype(float) if loss == "poisson" else 40.0 * rng.normal(size=n) + 3.0
    return X, y, rng.choice([0.0, 0.5, 1.0, 2.0], n) if weighted else np.ones(n)


PENALTIES: dict[str, tuple[Any, dict[str, float]]] = {
    "none": (None, {}),
    "l1": (ps.L1(0.01), {"l1": 0.01}),
    "l2": (ps.L2(0.02), {"l2": 0.02}),
    "elastic_net": (ps.ElasticNet(0.01, 0.02), {"l1": 0.01, "l2": 0.02}),
    "box": (ps.Box(-0.05, 0.1), {"lo": -0.05, "hi": 0.1}),
    "l1_nonnegative": (ps.L1(0.01) + ps.NonNegative(), {"l1": 0.01, "lo": 0.0}),
}


def engine_for(loss, penalty, algorithm, *, intercept=True, dtype=np.float64):
    from proxstream.learner.engine import CompiledEngine
    from proxstream.learner.layouts import AutoLayout

    made = ps.losses.get(loss)
    outputs = CLASSES if made.kind == "multiclass" else 1
    layout = AutoLayout(algorithm, ps.penalties.get(penalty), made, outputs, dtype)
    return CompiledEngine(layout, D, dtype, intercept)


def differences(loss, penalty, once, scale, intercept, seed):
    """Return how the engine differs from the loops above and, without an intercept, from the dense learner."""
    psi, numbers = PENALTIES[penalty]
    algorithm = ps.AutoFTRL(penalty_weight="once" if once else "every_round", scale=scale, track=not once)
    X, y, c = stream(loss, seed)
    engine = engine_for(loss, psi, algorithm, intercept=intercept)
    naive = Naive(loss, **numbers, once=once, scale=scale, intercept=intercept, track=not once)
    dense = ps.OnlineLearner(algorithm, psi, dim=(D, CLASSES) if loss in MULTICLASS else D)
    new, known = as_block(X, y, c), as_block(X[:REPEATED], y[:REPEATED], c[:REPEATED])
    scores = np.concatenate((engine.learn(new), engine.learn(known, repeated=True)))
    scores = scores.reshape(len(y) + REPEATED, -1)
    weights, intercepts = engine.weights()
    found = []

    def compare(what, got, wanted):
        got, wanted = np.asarray(got).reshape(np.shape(wanted)), np.asarray(wanted)
        scale = max(1.0, float(np.max(np.abs(wanted), initial=0.0)))
        if not np.allclose(got, wanted, rtol=1e-10, atol=1e-10 * scale):
            found.append(f"{what} differ by {np.max(np.abs(got - wanted)):.1e}")

    predicted, played = [], []
    for i, repeated in [*((i, False) for i in range(len(y))), *((i, True) for i in range(REPEATED))]:
        row, label = {j: float(v) for j, v in enumerate(X[i])}, int(y[i]) if loss in MULTICLASS else float(y[i])
        predicted.append(naive.learn(row, label, float(c[i]), repeated=repeated))
        played.append(np.atleast_1d(X[i] @ dense.point))
        dense.learn(X[i], label, loss, float(c[i]), repeated=repeated)
    compare("scores", scores, np.array(predicted))
    compare("weights", weights, naive.weights())
    if intercept:
        compare("intercepts", intercepts, np.array([naive.weight(-1, k)[0] for k in range(naive.classes)]))
    else:
        compare("the dense learner's scores", scores, np.array(played))
        compare("the dense learner's weights", weights, dense.point.reshape(D, -1))
        if not np.array_equal(weights.reshape(D, -1) == 0.0, dense.point.reshape(D, -1) == 0.0):
            found.append("zeros differ from the dense learner's")
    if not np.array_equal(weights.reshape(D, -1) == 0.0, naive.weights() == 0.0):
        found.append("zeros differ")
    return found


def main(every: int) -> None:
    """Play one in `every` combinations."""
    from proxstream.learner import _auto as auto

    assert auto.learn.__class__.__name__ == "function", "this program is for NUMBA_DISABLE_JIT=1"
    failures, played = [], 0
    matrix = itertools.product(SLOPES, PENALTIES, (False, True), ("feature", "global"), (False, True))
    for number, case in islice(enumerate(matrix), None, None, every):
        with np.errstate(all="ignore"):
            failures += [f"{case}: {text}" for text in differences(*case, seed=number)]
        played += 1
    json.dump({"played": played, "failures": failures}, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]))
