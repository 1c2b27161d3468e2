"""Layer-aware throughput T(k, g): the time of a training step whose first k layers are frozen, on g GPUs.

Pollux's step time (Qiao et al., OSDI 2021) with the two shares that freezing a prefix changes:

===========  ===========================================================================================
symbol       meaning
===========  ===========================================================================================
u(k)         share of the backward work that remains: unfrozen layers, activations or FLOPs
rho(k)       share of the parameters that remain, hence of what is synchronised
v(k)         share of the forward work that lies in the frozen prefix; saved where activations are cached
C(k, m)      (a_f + b_f m) (1 - v) + kappa m [cached] + (a_b + b_b m) u, m samples per GPU
S(k, g)      (a + b x(g)) (c + (1 - c) rho): a_r, b_r within a node, a_n, b_n across; 0 for one GPU
T(k, g)      s C + (C^gamma + S^gamma)^(1/gamma), s accumulation steps before the last
===========  ===========================================================================================

Pollux has x(g) = max(g - 2, 0), which is kept as the law ``"linear"``. The default ``"ring"`` is
x(g) = 1 - 2 / g: the bytes a ring all-reduce sends per GPU are proportional to 1 - 1 / g, so its time
saturates where the linear law keeps rising. Where no measurement determines b, the ring's is a, as the bytes
alone would have it, and the linear law's is 0, as in Pollux.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.core.errors import InvalidOption, one_of

__all__ = ["LAWS", "LayerThroughput", "SynchronisationLaw", "overlapped", "ring_term"]

SynchronisationLaw = Literal["ring", "linear"]
LAWS: tuple[SynchronisationLaw, ...] = ("ring", "linear")

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LayerThroughput:
    """The parameters of T(k, g); what no measurement determines is ``None``.

    Attributes
    ----------
    forward_s, forward_s_per_sample
        a_f and b_f.
    backward_s, backward_s_per_sample
        a_b and b_b.
    node_s, node_growth_s
        a_r and b_r: synchronisation within one node.
    network_s, network_growth_s
        a_n and b_n: synchronisation across nodes.
    fixed_sync_share
        c: the share of synchronisation that does not shrink with the parameters.
    overlap
        gamma: 1 for no overlap of computation and synchronisation, 10 for nearly all.
    cache_s_per_sample
        kappa: loading one sample's cached activations.
    law
        How synchronisation grows with the GPUs.
    """

    forward_s: float
    forward_s_per_sample: float
    backward_s: float
    backward_s_per_sample: float
    node_s: float | None = None
    node_growth_s: float | None = None
    network_s: float | None = None
    network_growth_s: float | None = None
    fixed_sync_share: float | None = None
    overlap: float | None = None
    cache_s_per_sample: float | None = None
    law: SynchronisationLaw = "ring"

    def step_time(
        self,
        gpus: ArrayLike,
        nodes: ArrayLike,
        local_batch: ArrayLike,
        work: ArrayLike = 1.0,
        parameters: ArrayLike = 1.0,
        accumulation: ArrayLike = 0,
        cached_forward: ArrayLike | None = None,
    ) -> Floats:
        """Return seconds per optimiser step; all arguments broadcast.

        Parameters
        ----------
        gpus, nodes
            How many GPUs and nodes the job runs on in all.
        local_batch
            Samples per GPU and accumulation step, m.
        work, parameters
            u(k) and rho(k), from 1 down to 0; 1 for nothing frozen.
        accumulation
            s, accumulation steps before the last.
        cached_forward
            v(k) where activations of the frozen prefix are cached; by default they are not.

        Raises
        ------
        InvalidOption
            If a placement needs a parameter that was not measured.
        """
        g, n = np.asarray(gpus, dtype=np.float64), np.asarray(nodes, dtype=np.float64)
        m, u = np.asarray(local_batch, dtype=np.float64), np.asarray(work, dtype=np.float64)
        forward = self.forward_s + self.forward_s_per_sample * m
        if cached_forward is not None:
            if self.cache_s_per_sample is None:
                raise InvalidOption("no step with cached activations was measured")
            forward = forward * (1.0 - np.asarray(cached_forward)) + self.cache_s_per_sample * m
        compute = forward + (self.backward_s + self.backward_s_per_sample * m) * u
        shared, spread = (g > 1) & (n <= 1), (g > 1) & (n > 1)
        inside = self._synchronisation(shared, "node", self.node_s, self.node_growth_s, g)
        across = self._synchronisation(spread, "network", self.network_s, self.network_growth_s, g)
        c = 1.0 if self.fixed_sync_share is None else self.fixed_sync_share
        sync = (inside + across) * (c + (1.0 - c) * np.asarray(parameters, dtype=np.float64))
        last = overlapped(compute, sync, 1.0 if self.overlap is None else self.overlap)
        return np.asarray(accumulation, dtype=np.float64) * compute + last

    def throughput(
        self,
        gpus: ArrayLike,
        nodes: ArrayLike,
        local_batch: ArrayLike,
        work: ArrayLike = 1.0,
        parameters: ArrayLike = 1.0,
        accumulation: ArrayLike = 0,
        cached_forward: ArrayLike | None = None,
    ) -> Floats:
        """Return samples per second, X = g m (s + 1) / T; arguments as in `step_time`."""
        seconds = self.step_time(gpus, nodes, local_batch, work, parameters, accumulation, cached_forward)
        samples = np.asarray(gpus, dtype=np.float64) * np.asarray(local_batch, dtype=np.float64)
        return samples * (np.asarray(accumulation, dtype=np.float64) + 1.0) / seconds

    def as_json(self) -> dict[str, Any]:
        """Return the parameters by name, ``None`` where not measured."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _synchronisation(
        self, needed: NDArray[np.bool_], what: str, at_two: float | None, growth: float | None, g: Floats
    ) -> Floats:
        if not needed.any():
            return np.zeros(needed.shape)
        if at_two is None:
            where = "several GPUs of one node" if what == "node" else "several nodes"
            raise InvalidOption(f"no step on {where} was measured")
        if growth is None:
            growth = at_two if self.law == "ring" else 0.0
        return np.where(needed, at_two + growth * ring_term(g, self.law), 0.0)


def ring_term(gpus: Floats, law: SynchronisationLaw) -> Floats:
    """Return x(g) of the law: 0 for up to two GPUs."""
    one_of("law", law, LAWS)
    if law == "linear":
        return np.maximum(gpus - 2.0, 0.0)
    return 1.0 - 2.0 / np.maximum(gpus, 2.0)


def overlapped(compute: Floats, sync: Floats, overlap: float) -> Floats:
    """Return (C^gamma + S^gamma)^(1/gamma), formed from the larger one so that nothing overflows."""
    high, low = np.maximum(compute, sync), np.minimum(compute, sync)
    ratio = np.divide(low, high, out=np.zeros(np.broadcast(low, high).shape), where=high > 0)
    return np.asarray(high * (1.0 + ratio**overlap) ** (1.0 / overlap), dtype=np.float64)
