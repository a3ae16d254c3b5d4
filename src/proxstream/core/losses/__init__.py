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
    curvature(p, y)               the second derivative in p, of smooth losses
    smoothness, lipschitz         constants of the slope, inf where there are none
    link                          "identity", "log", "logit" or None: what a score is of the mean label
    variance_power                of losses with a log link: they take offsets
    mean(scores)                  the mean label, of regression losses
    probabilities(scores)         those of the classes, of logistic and softmax
    smooth, has_sides, piecewise_linear, has_probabilities, has_conjugate, of_residuals, under_l1    what solvers ask
    check_labels(y)               a ValueError that names the first label not accepted
    kind                          "binary", "regression", "multiclass" or "ranking"

Signs. The prediction comes first, always (p, y). Binary and ranking labels are -1 and +1. A dual variable
alpha is minus a slope: at the optimum alpha = -slope(p, y), and the dual objective holds
-phi*(-alpha, y), as in Prox-SDCA (Shalev-Shwartz and Zhang, 2012). The two steps are one: alpha + delta =
-implicit_step(p - c alpha, y, c).

Kinks. Where phi is not differentiable, `slope` is a subgradient, and one rule chooses it: zero whenever
zero is a subgradient, so that an example exactly on its margin, on its label or on the edge of its tube
moves nothing. Every kink here allows it but those of the multiclass hinge between two violating
classes, where the first one in order counts. The perceptron is the one exception to the rule: its slope at
p = 0 is -y, since learning starts there. `implicit_step` and `dual_step` have nothing to choose for c > 0;
for c = 0 they return the limit of c -> 0, the subgradient of least norm.

The table has m = y p and t = -y a for the binary losses, r = p - y for regression, u = a + y for Poisson,
u = 1 - a for gamma, kappa = power - 1, lambda = 2 - power, and b = a + e_y for the losses of k scores (e_y is
the unit vector of the label, "simplex" is {b >= 0, sum b = 1}).

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
    gamma                 y e^-p + p                    u log(u/y) - u               u >= 0
    tweedie               y e^(-kappa p) / kappa        by Newton's method           all a; a >= 0 for y = 0
                          + e^(lambda p) / lambda
    softmax               log(sum e^p_j) - p_y          sum_j b_j log b_j            b in the simplex
    multiclass_hinge      max_j [j != y] + p_j - p_y    a_y                          b in the simplex

A user's own loss is `custom(value, slope)`, two plain functions of (p, y). A new loss of the library is one class
in the module of its kind (`binary`, `regression`, `log_link`, `multiclass`), registered there and named here. The
bodies of value, slope, conjugate, implicit_step and curvature use only their arguments, the parameters on self, NumPy
functions and the helpers of `numerics`, so that they can be compiled as they are.
"""

from proxstream.core.losses.base import Loss, VectorLoss, get, names, parameters
from proxstream.core.losses.binary import hinge, logistic, perceptron, ranking_hinge, smoothed_hinge, squared_hinge
from proxstream.core.losses.custom import custom
from proxstream.core.losses.log_link import gamma, poisson, tweedie
from proxstream.core.losses.multiclass import multiclass_hinge, softmax
from proxstream.core.losses.regression import absolute, epsilon_insensitive, huber, quantile, squared

__all__ = [
    "Loss",
    "VectorLoss",
    "absolute",
    "custom",
    "epsilon_insensitive",
    "gamma",
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
    "tweedie",
]
