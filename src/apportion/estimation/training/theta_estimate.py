"""The scale of an application's frozen penalty, learnt from the progress its frozen jobs really make.

With retained progress 1 - theta (1 - psi), an observation is y = 1 - (rate seen) / (rate expected if nothing
were lost), and y = theta x + noise with x = 1 - psi. The estimate is the posterior of a normal prior and
normal noise; what was seen long ago counts less, because theta need not be the same in every phase.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ThetaEstimate"]


@dataclass(slots=True)
class ThetaEstimate:
    """Belief about theta, updated in place.

    Attributes
    ----------
    prior
        Theta believed before anything was seen.
    prior_sd
        Standard deviation of the first estimate.
    noise_sd
        Standard deviation of an observation y.
    memory
        Factor, at most 1, by which every further observation fades the earlier ones.
    """

    prior: float
    prior_sd: float = 0.5
    noise_sd: float = 0.1
    memory: float = 0.98
    _square: float = 0.0
    _product: float = 0.0

    def observe(self, lost: float, penalty: float) -> None:
        """Learn that a job lost the share `lost` of its progress where 1 - psi is `penalty`."""
        self._square = self.memory * self._square + penalty * penalty
        self._product = self.memory * self._product + penalty * lost

    @property
    def mean(self) -> float:
        """The estimate, at least 0."""
        return max(0.0, self._weighted() / self._precision())

    @property
    def sd(self) -> float:
        """Its standard deviation."""
        return float(self._precision() ** -0.5)

    def _precision(self) -> float:
        return float(self.prior_sd**-2 + self._square / self.noise_sd**2)

    def _weighted(self) -> float:
        return float(self.prior * self.prior_sd**-2 + self._product / self.noise_sd**2)
