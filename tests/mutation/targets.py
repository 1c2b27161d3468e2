"""The modules that check, and the tests that must notice any change to them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["TARGETS"]

_MEANINGS = ("tests/instances/test_meanings.py", "-k")
_WALKS = (
    "tests/proofs/test_limits.py",
    "tests/proofs/test_walks.py",
    "tests/proofs/test_forgers.py",
    "tests/proofs/test_capacity_cuts.py",
    "tests/proofs/test_relaxed_rows.py",
    "tests/proofs/test_naive.py",
    "-m",
    "not slow",
)
_BUNDLES = (
    "tests/placement/test_running.py",
    "tests/placement/test_bundles.py",
    "-k",
    "not thousand and not given_is_not_lost",
)

TARGETS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "apportion.core.outcome": ("tests/test_gap.py", "tests/test_printing.py"),
        "apportion.models.exact_sums": ("tests/models/test_sums.py",),
        "apportion.solving.judge": ("tests/test_judge.py", "tests/solving/test_certify.py"),
        "apportion.models.lagrangian": ("tests/models/test_lagrangian.py",),
        "apportion.models.assignment_bounds": ("tests/models/test_assignment_bounds.py",),
        "apportion.io.stored": ("tests/test_verified.py",),
        "apportion.proofs.capacity_cuts": (
            "tests/proofs/test_capacity_cuts.py",
            "tests/proofs/test_forgers.py",
            "tests/formulations/test_freezing_on_nodes.py",
            "tests/proofs/test_walks.py",
            "-k",
            "test_capacity_cuts or cut or node or greatest_sum or racks",
        ),
        "apportion.proofs.certificate": _WALKS,
        "apportion.proofs.reducing": _WALKS,
        "apportion.proofs.relaxed_rows": _WALKS,
        "apportion.proofs.verifying": _WALKS,
        "apportion.proofs.walking": _WALKS,
        "apportion.proofs.claims": ("tests/claims/test_deciding.py",),
        "apportion.proofs.verified_document": (
            "tests/claims/test_documents.py",
            "tests/test_verified.py",
            "tests/solvers/test_strict_order.py",
            "tests/test_wrong_claims.py",
        ),
        "apportion.proofs.claims_of_fairness": (
            "tests/claims/test_shares_of.py",
            "tests/claims/test_due_shares.py",
            "tests/test_verified.py",
            "tests/test_wrong_claims.py",
            "tests/fairness/test_unproved_levels.py",
            "tests/forgeries",
        ),
        "apportion.proofs.reference": (
            "tests/proofs/test_reference_verdicts.py",
            "tests/proofs/test_reference_file.py",
            "tests/proofs/test_reference_cuts.py",
            "tests/proofs/test_reference.py",
        ),
        "apportion.instances.multiple_choice_knapsack.check": (
            "tests/solvers/test_strict_order.py",
            *_MEANINGS,
            "multiple_choice_knapsack or may_change",
        ),
        "apportion.instances.gap_filling.check": (
            "tests/instances/test_gap_filling_meaning.py",
            *_MEANINGS,
            "gap_filling",
        ),
        "apportion.instances.matching.check": (*_MEANINGS, "matching or named or machines"),
        "apportion.instances.matching.bounds": (
            "tests/models/test_assignment_bounds.py",
            *_MEANINGS,
            "matching or bounds",
        ),
        "apportion.instances.freezing.check": (*_MEANINGS, "freezing or named"),
        "apportion.instances.placement.bundles": _BUNDLES,
        "apportion.instances.placement.check": ("tests/placement/test_meaning.py",),
        "apportion.instances.placement.placed": ("tests/placement/test_meaning.py",),
        "apportion.instances.columns": (
            "tests/instances/test_meanings.py",
            "tests/instances/test_columns.py",
        ),
    }
)
"""Arguments of pytest by module, quick tests: a mutant that survives has cost all of them."""
