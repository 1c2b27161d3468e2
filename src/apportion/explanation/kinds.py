"""The table of what explanations do differently by kind of instance; files are loaded on first use.

A kind that is not in the table is explained by the menus of its first formulation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

from apportion.explanation.resolver import Resolver
from apportion.explanation.result import Explanation
from apportion.explanation.subject import Subject
from apportion.references import loaded
from apportion.solution import Solution
from apportion.solving.subject import kind_of_any

__all__ = ["EXPLAINED", "Explain", "Explained", "explained"]

Explain = Callable[[Any, Solution | None, str | None, str | None, Resolver, int], Explanation]
"""``explain(subject, solution, job, option, resolver, exact_jobs)``; see `apportion.explanation.explain`."""


@dataclass(frozen=True, slots=True)
class Explained:
    """How one kind is explained.

    Attributes
    ----------
    subject
        ``"module:class"``, a `Subject`.
    explain
        ``"module:function"``, an `Explain`.
    """

    subject: str = "apportion.explanation.subject:Subject"
    explain: str = "apportion.explanation.by_menus:explain_by_menus"

    def of(self, instance: Any) -> Subject:
        """Return an instance as a subject."""
        return cast(type[Subject], loaded(self.subject))(instance)

    def load(self) -> Explain:
        """Return the function that explains."""
        return cast(Explain, loaded(self.explain))


EXPLAINED: Mapping[str, Explained] = MappingProxyType(
    {
        "MultipleChoiceKnapsack": Explained("apportion.explanation.bare_knapsack:BareKnapsack"),
        "MatchingInstance": Explained(
            "apportion.explanation.matching.subject:MatchingSubject",
            "apportion.explanation.matching.subject:explain_matching",
        ),
        "FreezingInstance": Explained(
            "apportion.explanation.freezing.subject:FreezingSubject",
            "apportion.explanation.freezing.subject:explain_freezing",
        ),
    }
)
"""By the name of the type: a bare knapsack and an instance of one have the same name in JSON."""


def explained(instance: Any) -> Explained:
    """Return how an instance is explained; ``TypeError`` for anything that cannot be solved."""
    return EXPLAINED.get(kind_of_any(instance).type.__name__, Explained())
