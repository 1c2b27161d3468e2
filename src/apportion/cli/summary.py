"""A result for people: the plan as a table, then how the solve ended, where the eye rests last."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from apportion.cli.plan_tables import plan_lines
from apportion.cli.tables import KEPT, coloured, plain, wrapped
from apportion.cli.tenant_table import tenant_lines
from apportion.instances import Instance

__all__ = ["summary"]


def summary(instance: Instance, answer: Mapping[str, Any], source: str = "INSTANCE") -> str:
    """Return the readable form of a stored document.

    Parameters
    ----------
    instance
        The instance.
    answer
        The document.
    source
        What the instance was read from, for the command that says more.
    """
    lines: list[str] = []
    if answer["plan"] is not None:
        lines.extend(plan_lines(answer["kind"], instance, answer["plan"]))
        lines.append("")
        if answer.get("floors") is not None:
            lines.extend(tenant_lines(instance, answer))
            lines.append("")
    lines.extend(_ending(answer))
    if answer["plan"] is None:
        lines.append(wrapped("plan", f"no plan{_why(answer['termination'], source)}"))
    return "\n".join(lines)


def _why(termination: str, source: str) -> str:
    if termination == "infeasible":
        named = "INSTANCE" if source == "-" else plain(source)
        return f"; `apportion explain {named}` names what is in conflict and the cheapest ways out"
    return ""


def _ending(answer: Mapping[str, Any]) -> Iterable[str]:
    by = answer["certificate"]["source"]
    spent = {phase: _seconds(seconds) for phase, seconds in answer["times"].items() if seconds}
    times = ", ".join(f"{phase} {told}".replace(" ", KEPT) for phase, told in spent.items())
    ended = answer["termination"]
    colour = "green" if ended == "optimal" else "red" if answer["plan"] is None else "yellow"
    facts = {
        "instance": f"{answer['kind']} {plain(answer['name'])}".rstrip(),
        "backend": f"{answer['backend']} ({answer['reason']})",
        "termination": coloured(ended, colour, sys.stdout is not None and sys.stdout.isatty()),
        "objective": _number(answer["objective"]),
        "bound": _number(answer["bound"]) + (f" (by {by.replace('_', ' ')})" if by else ""),
        "verified bound": _number(answer["verified_bound"]),
        "evidence": (answer.get("evidence") or "none").replace("_", " "),
        "gap": "none" if answer["gap"] is None else f"{answer['gap']:.3g}",
        "time": times,
    }
    yield from (wrapped(name, fact) for name, fact in facts.items())
    yield from (wrapped("note", plain(note)) for note in answer["notes"])


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.12g}"


def _seconds(spent: float) -> str:
    return f"{spent * 1e3:.3g} ms" if spent < 1 else f"{spent:.3g} s"
