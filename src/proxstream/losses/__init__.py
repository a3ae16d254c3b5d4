"""Losses: what a prediction p costs when the label is y.

A loss is a function phi(p, y), convex in the prediction p. A learner on a stream needs its slope; a batch
solver that ends with a proof needs its conjugate and its dual step; regret and reports need its value. Each
loss is one class that knows these and nothing of penalties or algorithms. The lowercase names are the
losses themselves, and calling one sets its parameters: `losses.logistic`, `losses.huber(delta=0.5)`;
`losses.get("huber(0.5)")` reads the same from text.

    value(p, y)                   phi(p, y)
    slope(p, y)                   its derivative in p
    conjugate(a, y)               phi*(a, y) = sup_p a p - phi(p, y), +inf outside its domain
    implicit_step(p, y, c)        s, the slope at p' = p - c s, which minimizes c phi(q, y) + (q - p)^2 / 2
    dual_step(p, y, alpha, c)     delta that maximizes -phi*(-(alpha + delta), y) - delta p - (c/2) delta^2
    smoothness, lipschitz         constants of the slope, inf where there are none
    check_labels(y)               a ValueError that names the first label not accepted
    kind                          "binary", "regression", "multiclass" or "ranking"

Signs. The prediction comes first, always (p, y). Binary and ranking labels are -1 and +1. A dual variable
alpha stands for minus a slope: at the optimum alpha = -slope(p, y), and the dual objective holds
-phi*(-alpha, y), as in Prox-SDCA (Shalev-Shwartz and Zhang, 2012). The two steps are one: alpha + delta =
-implicit_step(p - c alpha, y, c).

Kinks. Where phi is not differentiable, `slope` is a subgradient, and one rule chooses it: zero whenever
zero is a subgradient, so that an example sitting exactly on its margin, on its label or on the edge of its
tube moves nothing. Every kink here allows it but those of the multiclass hinge between two violating
classes, where the first one in order counts. The perceptron is the one exception to the rule: its slope at
p = 0 is -y, since learning starts there. `implicit_step` and `dual_step` have nothing to choose for c > 0;
for c = 0 they return the limit of c -> 0, the subgradient of least norm.

The table has m = y p and t = -y a for the binary losses, r = p - y for regression, u = a + y for Poisson
and b = a + e_y for the losses of k scores (e_y is the unit vector of the label, "simplex" is {b >= 0, sum b
= 1}).

    loss                  phi                           conjugate                    domain
    logistic              log(1 + e^-m)                 t log t + (1-t) log(1-t)     0 <= t <= 1
    hinge                 max(0, 1 - m)                 -t                           0 <= t <= 1
    squared_hinge         max(0, 1 - m)^2               -t + t^2/4                   t >= 0
    smoothed_hinge        hinge, rounded over gamma     -t + (gamma/2) t^2           0 <= t <= 1
    perceptron            max(0, -m)                    0                            0 <= t <= 1
    ranking_hinge         max(0, 1 - m)                 -t                           0 <= t <= 1
    squared               r^2/2                         a y + a^2/2                  all a
    absolute              |r|                           a y                          |a| <= 1
    huber                 r^2/2, straight past delta    a y + a^2/2                  |a| <= delta
    epsilon_insensitive   max(0, |r| - epsilon)         a y + epsilon |a|            |a| <= 1
    quantile              max(-tau r, (1 - tau) r)      a y                          -tau <= a <= 1 - tau
    poisson               e^p - y p                     u log u - u                  u >= 0
    softmax               log(sum e^p_j) - p_y          sum_j b_j log b_j            b in the simplex
    multiclass_hinge      max_j [j != y] + p_j - p_y    a_y                          b in the simplex

A loss of one's own for a program or an experiment is `custom(value, slope)`, two plain functions of (p, y).
A new loss of the library is one class in the room of its kind (`binary`, `regression`, `multiclass`),
registered beside it and named here. The bodies of value, slope and conjugate use only their arguments, the
parameters on self, NumPy functions and the helpers of `numerics`, so that a compiler can take them as they are.
"""

from proxstream.losses.base import Loss, VectorLoss, get, names, parameters
from proxstream.losses.binary import hinge, logistic, perceptron, ranking_hinge, smoothed_hinge, squared_hinge
from proxstream.losses.custom import custom
from proxstream.losses.multiclass import multiclass_hinge, softmax
from proxstream.losses.regression import absolute, epsilon_insensitive, huber, poisson, quantile, squared

__all__ = [
    "Loss",
    "VectorLoss",
    "absolute",
    "custom",
    "epsilon_insensitive",
    "get",
    "hinge",
    "huber",
    "logistic",
    "multiclass_hinge",
    "names",
    "parameters",
    "perceptron",
    "poisson",
    "quantile",
    "ranking_hinge",
    "smoothed_hinge",
    "softmax",
    "squared",
    "squared_hinge",
]
