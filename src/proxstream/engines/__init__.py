"""Engines: what keeps a model's numbers and moves them, a row block at a time.

An engine knows nothing of files or scikit-learn. Each one has

    learn(rows) -> scores before learning     predict(rows) -> scores     weights() -> coefficients, intercept
    grow(n_features)     n_features, t, k     arrays() and restore(arrays), exact

| engine     | models                                                     | cost of a row               |
|------------|------------------------------------------------------------|-----------------------------|
| scalar     | one output, separable penalty, diagonal algorithm          | its non-zeros               |
| auto       | AutoFTRL, one output or several                            | its non-zeros               |
| multiclass | several outputs, row groups, one-vs-rest                   | its non-zeros times classes |
| ranking    | pairs of a query, on any engine with one output            | its pairs' non-zeros        |
| dense      | all that couples coordinates                               | all weights                 |
"""
