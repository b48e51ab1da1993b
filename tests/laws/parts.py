"""The parts that the laws test. A new part is one line here: the laws of its kind and every composition then test it.

Several lines for a class are its variants; compositions use the first one.
"""

from fedtide import aggregation as a
from fedtide import estimators as e
from fedtide import participation as p
from fedtide import servers
from fedtide import solvers as s

ESTIMATORS = {
    "bayesian": e.Bayesian(),
    "bayesian, other priors": e.Bayesian(0.5, 2.0, 3.0, 0.1, 1.0, 2.0),
    "blind": e.Blind(),
    "discounted": e.Discounted(5.0),
    "discounted, slow": e.Discounted(50.0, prior=0.2),
    "interval": e.Interval(),
    "interval, no cutoff": e.Interval(cutoff=None),
    "oracle": e.Oracle(),
}
POLICIES = {
    "correlation-aware, zero": p.CorrelationAware(0.05, smoothing=0.7),
    "correlation-aware, oracle": p.CorrelationAware(0.05, optimum="oracle"),
    "correlation-aware, running min": p.CorrelationAware(0.05, smoothing=0.5, optimum="running_min"),
    "cyclic groups": p.CyclicGroups(2, 3),
    "everyone": p.Everyone(),
    "everyone, fixed weights": p.Everyone(weights="fixed"),
    "everyone, equal": p.Everyone("equal"),
    "everyone, scaled": p.Everyone("scaled"),
    "graph spread": p.GraphSpread(3, spread=0.5),
    "highest loss": p.HighestLoss(2, pool=4),
    "highest loss, remembered": p.HighestLoss(2, losses="remembered", halve_every=3),
    "least available": p.LeastAvailable(3, smoothing=0.1),
    "least recent": p.LeastRecent(3),
    "lowest loss": p.LowestLoss(2, pool=4),
    "most available": p.MostAvailable(0.5),
    "normalised inverse": p.NormalisedInverse(),
    "rate tracking": p.RateTracking(3, smoothing=0.1),
    "rate tracking, correlated": p.RateTracking(3, smoothing=0.1, correlated=True),
    "sample, then correlation-aware": p.SampleFirst(p.CorrelationAware(0.05), 3),
    "sample, then rate tracking": p.SampleFirst(p.RateTracking(2), 3),
    "sample with replacement": p.SampleWithReplacement(3),
    "separated": p.Separated(3, separation=2),
    "subsample of unbiased": p.Subsample(p.Unbiased(), 2),
    "unbiased": p.Unbiased(),
    "uniform sample, equal": p.UniformSample(3),
    "uniform sample, scaled": p.UniformSample(3, "scaled"),
    "uniform sample, ratio": p.UniformSample(3, "ratio"),
    "uniform sample, fixed": p.UniformSample(3, "fixed"),
}
SOLVERS = {
    "adaptive, averaged": s.Adaptive(0.1, state="averaged"),
    "adaptive": s.Adaptive(0.1),
    "adaptive, adagrad": s.Adaptive(0.1, "adagrad"),
    "adaptive, persistent": s.Adaptive(0.1, state="persistent"),
    "adaptive steps": s.AdaptiveSteps(s.Sgd(0.1)),
    "control variate, momentum": s.ControlVariate(s.Momentum(0.1, decay=0.5)),
    "control variate": s.ControlVariate(s.Sgd(0.1)),
    "echo": s.Echo(s.Sgd(0.1)),
    "gradient tracking": s.GradientTracking(0.1),
    "momentum, persistent": s.Momentum(0.1, decay=0.5, persistent=True),
    "momentum": s.Momentum(0.1, decay=0.5),
    "own model": s.OwnModel(s.Sgd(0.1)),
    "periodic control variate": s.PeriodicControlVariate(s.Sgd(0.1), period=2),
    "proximal": s.Proximal(0.1, mu=0.5),
    "random update": s.RandomUpdate(s.Sgd(0.1), (2, 3), 2.0),
    "sgd": s.Sgd(0.1),
    "sign flip": s.SignFlip(s.Sgd(0.1), (2, 3), 2.0),
    "tail risk": s.TailRisk(0.1),
    "whole model": s.WholeModel(s.Sgd(0.1)),
}
AGGREGATIONS = {
    "accumulated": a.Accumulated(),
    "age weighted": a.AgeWeighted(),
    "cluster memory": a.ClusterMemory(2),
    "colluding": a.Colluding(attackers=2),
    "coordinate median": a.CoordinateMedian(),
    "extrapolated": a.Extrapolated(),
    "geometric median": a.GeometricMedian(),
    "krum": a.Krum(1, keep=2),
    "latest updates": a.LatestUpdates(),
    "norm clipped": a.NormClipped(norm=0.5),
    "normalised": a.Normalised(),
    "trimmed mean": a.TrimmedMean(0.3),
    "weighted sum": a.WeightedSum(),
}
SERVERS = {
    "published": servers.PublishedOptimiser("yogi", 0.05),
    "amplified": servers.Amplified(period=2),
    "average of last two": servers.AverageOfLastTwo(),
    "optimiser": servers.Optimiser("adam", 0.05),
    "projected": servers.Projected(servers.Optimiser(), 1.0),
}
