"""Types of nodes by name, and several that count as one: a job may then run on all of them at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from apportion.core.errors import InvalidOption
from apportion.live.offers import NodeOffer, Size
from apportion.live.record.jobs import Job
from apportion.live.slurm.cluster import details_of_text, sizes_of_text
from apportion.live.slurm.text import type_of, types_of
from tests.live.test_gpus import NODES
from tests.live.test_slurm_text import answers, fake, made
from tests.live.test_types import decided, gets, linear, spec

__all__ = ["fake"]


def test_types_that_count_as_one() -> None:
    types = types_of(("rack2", "ampere=a100-40+a100-80", "any=a100+v100"))
    assert type_of(types, ["rack2", "a100-40"]) == "rack2", "the first that it is of"
    assert type_of(types, ["ib", "a100-80"]) == "ampere"
    assert type_of(types, [], ["v100"]) == type_of(types, [], ["a100", "v100"]) == "any"
    assert type_of(types, [], ["h100"]) == "h100"
    assert type_of(types, [], ["a100", "h100"]) == type_of(types, [], [""]) == type_of(types, [""]) == ""
    told = "n1|8|500|a100-40\nn2|8|500|a100-80\nn3|8|500|(null)\n"
    assert [offer.size.type for offer in sizes_of_text(told, types).values()] == ["ampere", "ampere", ""]
    found = details_of_text(NODES, "harvest", "gpu", types)
    assert [found[node].offer.size.type for node in ("n1", "n2", "n4")] == ["any", "any", ""]


@pytest.mark.parametrize("words", [("a", "a"), ("a b",), ("=a",), ("a=",), ("a=b+",), ("a=b,",), ("",)])
def test_what_names_no_types_is_refused(fake: Path, words: tuple[str, ...]) -> None:
    answers(fake, "sinfo", "")
    with pytest.raises(InvalidOption, match=r"NAME=ONE\+ANOTHER"):
        made(fake, types=words)


def test_a_job_runs_on_all_nodes_of_types_that_count_as_one() -> None:
    idle = ("a1",) * 4 + ("v1",) * 4
    apart = decided([Job(1, "j", spec(8, a100=linear(110.0, 8), v100=linear(100.0, 8)), 0.0)], idle)
    assert gets(apart, 0) == ["a1"] * 4
    alike = {"a1": NodeOffer(Size(8, 100, "any"), 4, 8, 100), "v1": NodeOffer(Size(8, 100, "any"), 4, 8, 100)}
    as_one = decided([Job(1, "j", spec(8, any=linear(100.0, 8)), 0.0)], idle, offers=alike)
    assert gets(as_one, 0) == ["a1"] * 4 + ["v1"] * 4
