"""The words an explanation is told in: units, numbers and options, by kind of instance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from apportion.explanation.result import Difference, OptionWorth

__all__ = ["Words", "added", "amount", "plain", "seconds", "words_of"]


@dataclass(frozen=True, slots=True)
class Words:
    """How one kind of instance speaks.

    Attributes
    ----------
    nodes
        Whether options are node counts.
    value
        Unit of the objective, with a leading blank; empty where values have none.
    maximizes
        Whether more is better.
    kind
        The kind of instance.
    """

    nodes: bool
    value: str
    maximizes: bool
    kind: str = ""

    @property
    def gains(self) -> str:
        """What a better objective does."""
        return "adds" if self.maximizes else "saves"

    def unit(self, capacity: str) -> str:
        """Return one unit of a capacity in words."""
        return "node" if self.nodes else f"unit of {plain(capacity)}"

    def option(self, option: str | None) -> str:
        """Return an option in words."""
        if option is None:
            return "nothing (left out)"
        if self.kind == "freezing":
            return plain(option.replace(", 0 layers frozen", ", nothing frozen"))
        if self.nodes:
            return f"{option} node" if option == "1" else f"{option} nodes"
        return plain(option)

    def uses(self, worth: OptionWorth) -> str:
        """Return what an option uses in words."""
        if self.nodes:
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
        if option is None or self.kind not in ("matching", "freezing"):
            return f"gets {self.option(option)}"
        if option == "waiting":
            return "waits"
        return f"runs on {self.option(option)}"


def words_of(kind: str, sense: str, measure: str = "objective") -> Words:
    """Return the words of a kind of instance."""
    nodes = kind == "gap_filling"
    value = " samples" if nodes else " s" if measure == "makespan" else ""
    return Words(nodes=nodes, value=value, maximizes=sense == "maximize", kind=kind)


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
