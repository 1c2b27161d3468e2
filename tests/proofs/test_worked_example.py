"""The page on certificates: its program runs, and its five jobs close as it says."""

from __future__ import annotations

import re
from pathlib import Path

import apportion
from apportion.proofs import Claim, Proof
from apportion.proofs.certificate import instance_digest


def test_the_five_jobs_close_in_four_states(root: Path) -> None:
    page = (root / "docs" / "certificate.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(program.replace("print(", "verdict = ("), names)
    verdict = names["verdict"]
    assert verdict.status == "proved" and verdict.why == "4 states closed"  # type: ignore[attr-defined]


def test_one_less_is_refused_and_the_plan_is_worth_what_the_page_says() -> None:
    jobs = apportion.MultipleChoiceKnapsack.from_arrays(
        [9.0, 7.0, 7.0, 10.0, 6.0], [7, 3, 6, 7, 2], [0, 1, 2, 3, 4, 5], [13], required=False
    )
    assert jobs.check([-1, 1, -1, 3, 4]).objective == 23.0
    less = Proof(instance_digest(jobs), Claim("no_better_plan", 22.0), shift=0, prices=((1,),))
    assert apportion.verify(jobs, less).status == "refused"
