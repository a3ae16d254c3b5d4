"""Solvers that end with a proof: how far from the optimum their weights can be at most.

`problem` states what is solved and what is given back; every solver takes a `Problem` and returns a `Solution`. `dual`
makes a lower bound of any dual variables, and `judge` one for any model. `structured` takes a user's own argmax instead
of rows.
"""

from .dual import Certificate, DualPoint, dual_point
from .judge import certificate
from .paths import CrossValidation, Path, PathModel, path
from .problem import Problem, Record, Solution, Trace
from .problems import Chain, Multiclass
from .structured import StructuredProblem, StructuredSDCA

__all__ = [
    "Certificate",
    "Chain",
    "CrossValidation",
    "DualPoint",
    "Multiclass",
    "Path",
    "PathModel",
    "Problem",
    "Record",
    "Solution",
    "StructuredProblem",
    "StructuredSDCA",
    "Trace",
    "certificate",
    "dual_point",
    "path",
]
