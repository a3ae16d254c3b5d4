"""Engines: what keeps a model's numbers and moves them, a row block at a time.

An engine knows nothing of files or scikit-learn. Each one has

    learn(rows) -> scores before learning     predict(rows) -> scores     weights() -> coefficients, intercept
    grow(n_features)     n_features, t, k     arrays() and restore(arrays), exact

| engine  | models                                                       | cost of a row             |
|---------|--------------------------------------------------------------|---------------------------|
| scalar  | one output, separable penalty, diagonal algorithm            | its non-zeros             |
"""
