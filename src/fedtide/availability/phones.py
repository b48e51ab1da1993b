"""Phones, fitted to a measured trace."""

import dataclasses
from typing import Literal, NamedTuple

import numpy as np
from jax import Array

from fedtide.availability.base import count_clients, lag_one
from fedtide.availability.daily import DAY, Daily, swing
from fedtide.errors import require
from fedtide.types import part


class EligibilityRule(NamedTuple):
    """A population fitted to the phones of a trace under one rule of eligibility."""

    beta: tuple[float, float]  # π ~ Beta(a, b)
    hours: tuple[float, float]  # relaxation time τ ~ lognormal(median, σ), in hours
    never: float  # fraction of the phones that were never available
    by_hour: tuple[float, ...] | None = None  # fraction of the phones available, by hour of the trace's clock


RULES = {
    "idle_charging_wifi": EligibilityRule(
        (1.69, 9.99), (1.19, 0.67), 0.29,
        (.156, .175, .194, .208, .216, .213, .204, .183, .158, .143, .128, .112,
         .112, .103, .102, .105, .114, .122, .135, .112, .100, .109, .125, .146),
    ),
    "charging": EligibilityRule(
        (2.41, 8.20), (1.53, 0.56), 0.0,
        (.245, .277, .288, .293, .287, .285, .273, .241, .210, .202, .195, .174,
         .168, .174, .172, .180, .209, .210, .225, .211, .183, .194, .219, .244),
    ),
    "charging_or_battery75": EligibilityRule((3.01, 3.07), (2.62, 0.52), 0.0),
    "charging_or_battery50": EligibilityRule((4.41, 2.06), (2.73, 0.58), 0.0),
}  # fmt: skip
"""The fitted populations by rule of eligibility."""


@part
class Phones(Daily):
    """Phones drawn from a population fitted to a real trace, with an eligibility rule and a daily profile.

    π_k ~ Beta(a, b) and relaxation time τ_k ~ lognormal, independently, from `population_seed`; a fraction of the
    phones is never available where this was so in the trace. A phone keeps its random number from one round to the next
    with probability ρ_k = exp(−Δ/τ_k) for rounds of Δ = `round_minutes`.

    With `daily`, P(on in round t) = π_k (1 + s_k d(clock)), where d is the measured fraction of phones by hour, linear
    between the middles of hours, relative to its mean over the rounds of a day; s_k = min(1, (1/π_k − 1)/max d) keeps
    probabilities of nearly always available phones below 1. The average over a day is exactly π_k. `daily` is the
    default where a profile was measured: for the rules `idle_charging_wifi` and `charging`. Round 0 is at `start_hour`.

    Reference: Yang et al., "Characterizing impacts of heterogeneity in federated learning upon large-scale smartphone
    data" (FLASH), WWW 2021; fitted to extracts of its trace, about five days of each phone.
    """

    rule: Literal["idle_charging_wifi", "charging", "charging_or_battery75", "charging_or_battery50"] = "charging"
    round_minutes: float = 30.0
    clients: int = 100
    population_seed: int = 0
    daily: bool | None = None
    start_hour: float = 0.0
    availability: Array = dataclasses.field(init=False, repr=False)
    persistence: Array = dataclasses.field(init=False, repr=False)
    swing: Array = dataclasses.field(init=False, repr=False)  # [N] s_k
    profile: Array = dataclasses.field(init=False, repr=False)  # [24] d at the middles of hours
    round_seconds: int = dataclasses.field(init=False, repr=False)
    start_second: int = dataclasses.field(init=False, repr=False)

    def __post_init__(self):
        require(self.rule in RULES, "rule", self.rule, f"one of {', '.join(RULES)}")
        rule = RULES[self.rule]
        seconds = self.round_minutes * 60
        whole = 1 <= seconds <= DAY / 2 and abs(seconds - round(seconds)) < 1e-6
        require(whole, "round_minutes", self.round_minutes, "a whole number of seconds, up to 720 minutes")
        require(0 <= self.start_hour < 24, "start_hour", self.start_hour, "in [0, 24)")
        require(self.population_seed >= 0, "population_seed", self.population_seed, "0 or more")
        clients = count_clients(self.clients) or 0
        daily = rule.by_hour is not None if self.daily is None else self.daily
        measured = f"False for {self.rule}: no profile was measured"
        require(not daily or rule.by_hour is not None, "daily", daily, measured)

        random = np.random.default_rng([self.population_seed, 0x9403E5])
        pi = random.beta(*rule.beta, size=clients)
        median, sigma = rule.hours
        hours = median * np.exp(sigma * random.standard_normal(clients))
        pi = np.where(random.random(clients) < rule.never, 0, pi)

        self._set(daily=daily, round_seconds=round(seconds), start_second=round(self.start_hour * 3600))
        self._set(availability=pi, persistence=np.exp(-seconds / 3600 / hours), profile=np.zeros(24))
        if daily:
            self._set(profile=np.asarray(rule.by_hour))
            self._set(profile=self.profile / self._clock().mean() - 1)
        self._set(swing=swing(pi, float(np.max(self.profile))))

    @property
    def correlation(self) -> np.ndarray:
        """The long-run lag-1 correlation: of all pairs of consecutive rounds, over a day."""
        keep = np.asarray(self.persistence, np.float64)
        kept, redrawn = self._again()
        return lag_one(np.asarray(self.availability, np.float64), keep * kept + (1 - keep) * redrawn)
