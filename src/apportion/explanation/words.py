"""The words an explanation is told in: units, numbers and options, by kind of instance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from apportion.explanation.parts import Difference, OptionWorth
from apportion.instances.kind import Wording
from apportion.instances.kinds import kinds

__all__ = ["Words", "added", "amount", "plain", "seconds", "words_of"]


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
        return "node" if self.kind.counts_nodes else f"unit of {plain(capacity)}"

    def option(self, option: str | None) -> str:
        """Return an option in words."""
        if option is None:
            return "nothing (left out)"
        if self.kind.counts_nodes:
            return f"{option} node" if option == "1" else f"{option} nodes"
        return plain(self.kind.option(option))

    def uses(self, worth: OptionWorth) -> str:
        """Return what an option uses in words."""
        if self.kind.counts_nodes:
            return self.option(worth.option)
        return ", ".join(f"{use} {plain(name)}" for name, use in worth.uses.items()) or "nothing"

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


def amount(value: float) -> str:
    """Return a number to seven digits, or to the unit where it has more of them; its thousands apart."""
    return f"{value:,.0f}" if 1e6 <= abs(value) < 1e15 else f"{value + 0.0:,.7g}"


def plain(text: str) -> str:
    """Return text with unprintable characters spelt out, so that it stays on its line."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def added(add: Mapping[str, int]) -> str:
    """Return additions of capacity in words."""
    return ", ".join(f"{units:,d} {plain(name)}" for name, units in add.items())
