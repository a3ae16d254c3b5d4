"""Solvers that end with a proof: how far from the optimum their weights can be at most.

`problem` defines the problem and its solution: every solver takes a `Problem` and returns a `Solution`. `dual` computes
the lower bound of given dual variables, `certificate` one for any model. `structured` takes a user-defined argmax
instead of rows.
"""

from .certificate import Certificate, certificate
from .cross_validation import CrossValidation
from .dual import DualPoint, dual_point
from .path import PathModel, RegularizationPath, regularization_path
from .problem import Problem, Record, Solution, Trace
from .structured import StructuredProblem, StructuredSDCA
from .structured_tasks import Chain, Multiclass

__all__ = [
    "Certificate",
    "Chain",
    "CrossValidation",
    "DualPoint",
    "Multiclass",
    "PathModel",
    "Problem",
    "Record",
    "RegularizationPath",
    "Solution",
    "StructuredProblem",
    "StructuredSDCA",
    "Trace",
    "certificate",
    "dual_point",
    "regularization_path",
]
