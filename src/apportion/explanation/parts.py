"""The parts that explanations and comparisons consist of, in the instance's own names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from apportion.core.display import amount
from apportion.instances.kind import Wording
from apportion.instances.kinds import kinds

__all__ = [
    "CapacityWorth",
    "Conflict",
    "Difference",
    "JobChange",
    "JobWorth",
    "OptionWorth",
    "Relaxation",
    "Rival",
    "TenantWorth",
    "Waiting",
    "Words",
    "added",
    "amount",
    "seconds",
    "spelt_out",
    "words_of",
]


@dataclass(frozen=True, slots=True)
class Difference:
    """How much better (positive) one optimum is than another.

    Attributes
    ----------
    exact
        The difference, if both optima are proven (to the 1e-9 relative that counts as proof).
    low, high
        Bounds on it from the plans and bounds found; equal to `exact` where that is known.
    """

    exact: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Conflict:
    """Jobs that cannot all be served from some capacities, though nothing else stands in their way.

    Attributes
    ----------
    jobs
        Required or pinned jobs.
    capacities
        The capacities they exceed; empty if the one job has no option at all.
    needs
        What those jobs use of each of those capacities at least, each job's least use taken by itself.
    available
        How much there is of each.
    irreducible
        Whether dropping any single member is shown to leave something feasible.
    smallest
        Whether it is shown that no conflict has fewer members (jobs and capacities together).
    undecided
        Members kept only because a re-solve ended at its limit.
    reason
        Why they are in conflict, in words.
    """

    jobs: tuple[str, ...]
    capacities: tuple[str, ...]
    needs: Mapping[str, int]
    available: Mapping[str, int]
    irreducible: bool
    smallest: bool
    undecided: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Relaxation:
    """A way to make the instance feasible.

    Attributes
    ----------
    kind
        ``"add_capacity"``, ``"leave_out"`` or ``"unpin"``.
    add
        Units to add by capacity.
    leave_out
        Jobs to leave out.
    unpin
        Jobs whose pins to lift.
    cost
        Sum of additions relative to what there is (an absent capacity counts as 1 unit), or number of jobs.
    minimal
        Whether no cheaper relaxation of this kind exists, as far as it is shown.
    verified
        Whether solving the relaxed instance found a checked plan.
    note
        Why the relaxation is not verified; empty if it is.
    """

    kind: Literal["add_capacity", "leave_out", "unpin"]
    add: Mapping[str, int]
    leave_out: tuple[str, ...]
    cost: float
    minimal: bool
    verified: bool
    note: str = ""
    unpin: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CapacityWorth:
    """What one capacity is worth at the plan.

    Attributes
    ----------
    name, capacity, used, free
        The capacity and what the plan uses of it.
    price
        Its Lagrange multiplier: the slope of the upper bound; ``None`` if there is none.
    one_more
        What one more unit is worth, by re-solving.
    one_more_at_most
        The bound of the same multipliers with one more unit, less the objective: never below `one_more`.
    one_fewer
        What is lost with one unit fewer, by re-solving; ``None`` if there is no unit, or nothing is feasible.
    busy
        Of a makespan: the part of the pool's machine time that is used, from 0 to 1.
    """

    name: str
    capacity: int
    used: int
    free: int
    price: float | None
    one_more: Difference | None
    one_more_at_most: float | None
    one_fewer: Difference | None
    busy: float | None = None


@dataclass(frozen=True, slots=True)
class OptionWorth:
    """One option of a job at the prices.

    Attributes
    ----------
    option
        Its name; ``None`` for leaving the job out.
    value
        Its value, in the instance's sense.
    uses
        What it uses of each capacity, where that is not 0.
    pays
        ``lambda . u``; ``None`` without prices.
    net
        Its value (its negative, when minimising) less what it pays; ``None`` without prices.
    """

    option: str | None
    value: float
    uses: Mapping[str, int]
    pays: float | None
    net: float | None


@dataclass(frozen=True, slots=True)
class Rival:
    """An option a job did not get, and what it would take to get it.

    Attributes
    ----------
    worth
        The option at the prices.
    estimate
        Lagrangian estimate: by how much its net worth falls short of the chosen option's (negative if the
        prices alone would prefer it); ``None`` without prices.
    needed
        By how much its value would have to rise (fall, when minimising) to stand in an optimal plan:
        the loss of the objective when the job is pinned to it. ``None`` if that was not asked for.
    possible
        Whether any plan has it; ``None`` if that was not asked for or could not be settled.
    kept
        Whether only plans were looked at that keep the shares due to tenants.
    """

    worth: OptionWorth
    estimate: float | None
    needed: Difference | None = None
    possible: bool | None = None
    kept: bool = False


@dataclass(frozen=True, slots=True)
class JobWorth:
    """Why a job got what it got.

    Attributes
    ----------
    job
        Its name.
    chosen
        The option that the job has in the plan.
    runner_up
        The best other option at the prices; ``None`` if it has no other.
    asked
        The option that was asked about.
    step_up, step_down
        The next larger and next smaller use, where there is one capacity.
    enters_at
        For a job that uses nothing: the fraction all prices would have to fall to before some option of
        it pays (above 1: it would pay, but finds no room beside the others); ``None`` if none ever pays.
    enters_at_price
        The same as a price, where there is one capacity.
    idle
        Whether the job uses nothing: it is left out, or its option is free.
    remarks
        What only its kind knows, in words: when and where it runs, why it is frozen so deep.
    unfrozen
        Of layer freezing, if it is frozen: the same GPUs with nothing frozen.
    """

    job: str
    chosen: OptionWorth
    runner_up: Rival | None
    asked: Rival | None
    step_up: OptionWorth | None
    step_down: OptionWorth | None
    enters_at: float | None
    enters_at_price: float | None
    idle: bool
    remarks: tuple[str, ...] = ()
    unfrozen: Rival | None = None


@dataclass(frozen=True, slots=True)
class JobChange:
    """One job before and after.

    Attributes
    ----------
    job
        Its name.
    presence
        ``"stays"``, ``"new"`` or ``"gone"``.
    before, after
        The option it has, ``None`` for none.
    value_before, value_after
        Its part of the objective, 0 where it is absent; of a makespan, when the job ends (of shares of time,
        when it is done), which does not add up to it.
    gain
        By how much its part gets better (positive) or worse, in the instance's sense.
    nodes_gained, nodes_lost
        Nodes it has in one plan only, where the kind has nodes.
    """

    job: str
    presence: Literal["stays", "new", "gone"]
    before: str | None
    after: str | None
    value_before: float
    value_after: float
    gain: float
    nodes_gained: tuple[str, ...] = ()
    nodes_lost: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TenantWorth:
    """What a tenant has, and on whose account.

    Attributes
    ----------
    name
        The tenant.
    share, due
        Its share, before any weight, and the share that its level gives it; ``None`` without levels.
    uses, guaranteed
        By capacity.
    above
        By capacity, what guarantees of the tenants above it cover of its use beyond its own.
    borrows
        How much it uses beyond all of these, by capacity.
    lenders
        Whose guarantee is not used, and how much of it, by capacity that it borrows of.
    binding
        The limits that leave it nothing more.
    one_more_guaranteed
        By capacity, how its share changes with one more unit of guarantee (by re-solving); ``None`` where all
        that there is has been guaranteed already, or the question was not answered in time.
    """

    name: str
    share: float
    due: float | None
    uses: Mapping[str, int]
    guaranteed: Mapping[str, int]
    above: Mapping[str, Mapping[str, int]]
    borrows: Mapping[str, int]
    lenders: Mapping[str, Mapping[str, int]]
    binding: tuple[str, ...]
    one_more_guaranteed: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a job of a tenant waits.

    Attributes
    ----------
    job, tenant
        The job and its tenant.
    option
        Its least option.
    limits
        The limits that leave no room for it.
    displaces
        Jobs of tenants beyond their guarantee that have what it needs.
    """

    job: str
    tenant: str
    option: str
    limits: tuple[str, ...]
    displaces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Words:
    """The words of one explanation: units, verbs and names of options.

    Attributes
    ----------
    kind
        How its kind of instance is spoken of.
    measure
        What the objective is called.
    maximizes
        Whether more is better.
    """

    kind: Wording
    measure: str
    maximizes: bool

    @property
    def value(self) -> str:
        """The unit of the objective with a leading blank; empty where values have none."""
        return self.kind.units.get(self.measure, "")

    @property
    def timed(self) -> bool:
        """Whether the objective is when everything ends: it weighs pools and does not price them."""
        return self.measure == "makespan"

    @property
    def gains(self) -> str:
        """The verb for a better objective: it adds where more is better, else it saves."""
        return "adds" if self.maximizes else "saves"

    def unit(self, capacity: str) -> str:
        """Return one unit of a capacity in words."""
        return "node" if self.kind.counts_nodes else f"unit of {spelt_out(capacity)}"

    def option(self, option: str | None) -> str:
        """Return an option in words."""
        if option is None:
            return "nothing (left out)"
        if option == "nothing":  # what tenants call it, of every kind
            return option
        if self.kind.counts_nodes:
            return f"{option} node" if option == "1" else f"{option} nodes"
        return spelt_out(self.kind.option(option))

    def uses(self, worth: OptionWorth) -> str:
        """Return what an option uses in words."""
        if self.kind.counts_nodes:
            return self.option(worth.option)
        return ", ".join(f"{use} {spelt_out(name)}" for name, use in worth.uses.items()) or "nothing"

    def difference(self, gap: Difference) -> str:
        """Return a difference in words, as bounds where it is not exact."""
        if gap.exact is not None:
            return f"{amount(gap.exact)}{self.value}"
        if gap.low is not None and gap.high is not None:
            return f"{amount(gap.low)} to {amount(gap.high)}{self.value}"
        if gap.high is not None:
            return f"at most {amount(gap.high)}{self.value}"
        return "an unknown amount" if gap.low is None else f"at least {amount(gap.low)}{self.value}"

    def has(self, option: str | None) -> str:
        """Return that a job has an option, in words."""
        if option is None or not self.kind.runs:
            return f"gets {self.option(option)}"
        return "waits" if option == self.kind.waiting else f"runs on {self.option(option)}"


def words_of(kind: str, sense: str, measure: str = "objective") -> Words:
    """Return the words of a kind of instance, named as in JSON."""
    return Words(kinds()[kind].wording, measure, sense == "maximize")


def seconds(value: float) -> str:
    """Return a time in words."""
    return f"{amount(value)} s"


def spelt_out(text: str) -> str:
    """Return text with unprintable characters spelt out, so that it stays on its line."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def added(add: Mapping[str, int]) -> str:
    """Return additions of capacity in words."""
    return ", ".join(f"{units:,d} {spelt_out(name)}" for name, units in add.items())
