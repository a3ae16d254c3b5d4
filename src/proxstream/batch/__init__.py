"""Solvers that end with a proof: how far from the optimum their weights can be at most.

`problem` states what is solved and what is given back; every solver takes a `Problem` and returns a `Solution`. `dual`
makes a lower bound of any dual variables, and `judge` one for any model.
"""

from .dual import Certificate, DualPoint, dual_point
from .judge import certificate
from .problem import Problem, Record, Solution, Trace

__all__ = ["Certificate", "DualPoint", "Problem", "Record", "Solution", "Trace", "certificate", "dual_point"]
