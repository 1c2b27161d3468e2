"""Proofs that anybody can check: a search restated as whole numbers, and the checker that walks it again.

Nothing here is shared with `solvers`, `formulations` or `models.lagrangian`: the checker derives the menus
from the instance, rounds outward, and closes every leaf by a bound in exact integers. The format and the
argument stand in ``docs/certificate.md``.
"""

from apportion.proofs.certificate import Claim, Proof
from apportion.proofs.verifying import Verdict, verify

__all__ = ["Claim", "Proof", "Verdict", "verify"]
