# The public names and where they live: type checkers read this file, and `__init__.py` loads names by it.

from . import (
    batch as batch,
    cluster as cluster,
    datasets as datasets,
    estimators as estimators,
    io as io,
    models as models,
    online as online,
)
from .batch import (
    Certificate as Certificate,
    RegularizationPath as RegularizationPath,
    StructuredSDCA as StructuredSDCA,
    certificate as certificate,
    regularization_path as regularization_path,
)
from .core import (
    algorithms as algorithms,
    geometries as geometries,
    losses as losses,
    penalties as penalties,
)
from .core.algorithms import (
    AROW as AROW,
    FTRL as FTRL,
    RDA as RDA,
    SGD as SGD,
    AcceleratedRDA as AcceleratedRDA,
    AdaGrad as AdaGrad,
    Algorithm as Algorithm,
    AutoFTRL as AutoFTRL,
    FollowTheLeader as FollowTheLeader,
    FTRLProximal as FTRLProximal,
    MirrorDescent as MirrorDescent,
    PassiveAggressive as PassiveAggressive,
    TruncatedGradient as TruncatedGradient,
)
from .core.geometries import (
    Entropy as Entropy,
    Euclidean as Euclidean,
    PNorm as PNorm,
)
from .core.losses import (
    Loss as Loss,
    absolute as absolute,
    epsilon_insensitive as epsilon_insensitive,
    gamma as gamma,
    hinge as hinge,
    huber as huber,
    logistic as logistic,
    multiclass_hinge as multiclass_hinge,
    perceptron as perceptron,
    poisson as poisson,
    quantile as quantile,
    ranking_hinge as ranking_hinge,
    smoothed_hinge as smoothed_hinge,
    softmax as softmax,
    squared as squared,
    squared_hinge as squared_hinge,
    tweedie as tweedie,
)
from .core.penalties import (
    KL as KL,
    L1 as L1,
    L2 as L2,
    Berhu as Berhu,
    Box as Box,
    ElasticNet as ElasticNet,
    GroupL2 as GroupL2,
    GroupLinf as GroupLinf,
    L1Ball as L1Ball,
    L2Ball as L2Ball,
    L2Norm as L2Norm,
    LinfNorm as LinfNorm,
    NonNegative as NonNegative,
    NoPenalty as NoPenalty,
    Penalty as Penalty,
    Simplex as Simplex,
)
from .data.order import (
    OrderWarning as OrderWarning,
)
from .data.rowblock import (
    RowBlock as RowBlock,
)
from .data.standardize import (
    StandardizedStream as StandardizedStream,
)
from .estimators import (
    CertifiedClassifier as CertifiedClassifier,
    CertifiedRegressor as CertifiedRegressor,
    SDCAClassifier as SDCAClassifier,
    SDCARegressor as SDCARegressor,
    StreamClassifier as StreamClassifier,
    StreamPathClassifier as StreamPathClassifier,
    StreamPathRegressor as StreamPathRegressor,
    StreamRanker as StreamRanker,
    StreamRegressor as StreamRegressor,
)
from .io import (
    open_stream as open_stream,
)
from .io.features.spec import (
    FeatureSpec as FeatureSpec,
)
from .io.types import (
    DataError as DataError,
)
from .learner.learner import (
    Learner as Learner,
)
from .models import (
    ModelFileError as ModelFileError,
    load as load,
    save as save,
)
from .online import (
    Bound as Bound,
    OnlineLearner as OnlineLearner,
    Regret as Regret,
)

__version__: str
