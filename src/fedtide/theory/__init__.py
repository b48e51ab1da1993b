"""The results of the papers as functions: chains, bias, constants, bounds, optimal weights, flows and predictions.

Everything is NumPy in float64. A printed statement that has an error is available as printed and repaired.
"""

from fedtide.declared import CaFed, Training, Weighting
from fedtide.theory.bias import (
    Bias,
    Importance,
    WeightIntervals,
    bias,
    biased_importance,
    chi_square,
    enumerated_importance,
    expected_weights,
    normalised_importance,
    sampled_importance,
    total_variation,
)
from fedtide.theory.bounds.base import Bound
from fedtide.theory.bounds.ca_fed import theorem1, theorem2, theorem3
from fedtide.theory.bounds.cyclic import cyclic_error, cyclic_order
from fedtide.theory.bounds.fedavg import fedavg_error, fedvarp_error
from fedtide.theory.bounds.selection import Skew, selection_error, skew
from fedtide.theory.chains import (
    Chain,
    MixingBounds,
    Presence,
    ProductConstants,
    RunLengths,
    TwoState,
    from_transition,
    lowest_correlation,
    presence,
    product,
    product_constants,
)
from fedtide.theory.constants import Constants, quadratic_constants, softmax_constants
from fedtide.theory.drift import average_drift
from fedtide.theory.exclusions import Exclusions, ExclusionTest, SettledExclusions, exclusions, settled_exclusions
from fedtide.theory.families import Family, QuadraticFamily, SoftmaxFamily
from fedtide.theory.flow import StepConditions, Tracking, clock, flow, schedule, step_conditions, tracking
from fedtide.theory.optimal_weights import FastestWeights, TradeOffWeights, fastest_weights, trade_off_weights
from fedtide.theory.prediction import Clients, MethodPrediction, Prediction, predict_methods
from fedtide.theory.trajectory import (
    Overtaking,
    Path,
    StationaryVariance,
    overtaking,
    predicted_path,
    stationary_variance,
)

__all__ = [
    "Bias",
    "Bound",
    "CaFed",
    "Chain",
    "Clients",
    "Constants",
    "ExclusionTest",
    "Exclusions",
    "Family",
    "FastestWeights",
    "Importance",
    "MethodPrediction",
    "MixingBounds",
    "Overtaking",
    "Path",
    "Prediction",
    "Presence",
    "ProductConstants",
    "QuadraticFamily",
    "RunLengths",
    "SettledExclusions",
    "Skew",
    "SoftmaxFamily",
    "StationaryVariance",
    "StepConditions",
    "Tracking",
    "TradeOffWeights",
    "Training",
    "TwoState",
    "WeightIntervals",
    "Weighting",
    "average_drift",
    "bias",
    "biased_importance",
    "chi_square",
    "clock",
    "cyclic_error",
    "cyclic_order",
    "enumerated_importance",
    "exclusions",
    "expected_weights",
    "fastest_weights",
    "fedavg_error",
    "fedvarp_error",
    "flow",
    "from_transition",
    "lowest_correlation",
    "normalised_importance",
    "overtaking",
    "predict_methods",
    "predicted_path",
    "presence",
    "product",
    "product_constants",
    "quadratic_constants",
    "sampled_importance",
    "schedule",
    "selection_error",
    "settled_exclusions",
    "skew",
    "softmax_constants",
    "stationary_variance",
    "step_conditions",
    "theorem1",
    "theorem2",
    "theorem3",
    "total_variation",
    "tracking",
    "trade_off_weights",
]
