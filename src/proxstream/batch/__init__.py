"""Solvers that end with a proof: how far from the optimum their weights can be at most.

`problem` states what is solved and what is given back; every solver takes a `Problem` and returns a `Solution`.
"""

from .problem import Problem, Record, Solution, Trace

__all__ = ["Problem", "Record", "Solution", "Trace"]
