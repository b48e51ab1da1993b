"""Methods: published algorithms as compositions of parts."""

from fedtide.methods.adacomm import adacomm
from fedtide.methods.adafed import adafed
from fedtide.methods.amplified_scaffold import amplified_scaffold
from fedtide.methods.base import CATALOGUE, Facts, Method, MethodEntry, by_purpose, compose, find, method
from fedtide.methods.ca_fed import ca_fed
from fedtide.methods.cluster_fedvarp import cluster_fedvarp
from fedtide.methods.coordinate_median import coordinate_median
from fedtide.methods.cyclic_participation import cyclic_participation
from fedtide.methods.debiased_fedavg import debiased_fedavg
from fedtide.methods.f3ast import f3ast
from fedtide.methods.fed_cvar_avg import fed_cvar_avg
from fedtide.methods.fedasync import fedasync
from fedtide.methods.fedau import fedau
from fedtide.methods.fedavg import fedavg
from fedtide.methods.fedavgm import fedavgm
from fedtide.methods.fedawe import fedawe
from fedtide.methods.fedbuff import fedbuff
from fedtide.methods.fedexp import fedexp
from fedtide.methods.fedgs import fedgs
from fedtide.methods.fedlaavg import fedlaavg
from fedtide.methods.fednova import fednova
from fedtide.methods.fedopt import fedadagrad, fedadam, fedyogi
from fedtide.methods.fedpbc import fedpbc
from fedtide.methods.fedprox import fedprox
from fedtide.methods.fedsgd import fedsgd
from fedtide.methods.fedstale import fedstale
from fedtide.methods.fedvarp import fedvarp
from fedtide.methods.focus import focus
from fedtide.methods.generalised_fedavg import generalised_fedavg
from fedtide.methods.krum import krum
from fedtide.methods.local_adaptive import local_adaptive
from fedtide.methods.lowest_loss import lowest_loss
from fedtide.methods.mifa import mifa
from fedtide.methods.most_available import most_available
from fedtide.methods.power_of_choice import adapow_d, cpow_d, pow_d, rpow_d
from fedtide.methods.rfa import rfa
from fedtide.methods.scaffold import scaffold
from fedtide.methods.stochastic_approximation import stochastic_approximation
from fedtide.methods.trimmed_mean import trimmed_mean
from fedtide.methods.unbiased import unbiased

__all__ = [
    "CATALOGUE",
    "Facts",
    "Method",
    "MethodEntry",
    "adacomm",
    "adafed",
    "adapow_d",
    "amplified_scaffold",
    "by_purpose",
    "ca_fed",
    "cluster_fedvarp",
    "compose",
    "coordinate_median",
    "cpow_d",
    "cyclic_participation",
    "debiased_fedavg",
    "f3ast",
    "fed_cvar_avg",
    "fedadagrad",
    "fedadam",
    "fedasync",
    "fedau",
    "fedavg",
    "fedavgm",
    "fedawe",
    "fedbuff",
    "fedexp",
    "fedgs",
    "fedlaavg",
    "fednova",
    "fedpbc",
    "fedprox",
    "fedsgd",
    "fedstale",
    "fedvarp",
    "fedyogi",
    "find",
    "focus",
    "generalised_fedavg",
    "krum",
    "local_adaptive",
    "lowest_loss",
    "method",
    "mifa",
    "most_available",
    "pow_d",
    "rfa",
    "rpow_d",
    "scaffold",
    "stochastic_approximation",
    "trimmed_mean",
    "unbiased",
]
