"""The page on fair sharing names what there is, and its figures are those of the cases that agree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from apportion.cluster.policies.names import CLUSTER_POLICIES
from tests.policies.tenancy.kueue_cases import fairness_cases

FILES = {
    "dominant resource share": "kueue_drs",
    "one scheduling cycle": "kueue_fair_scheduling",
    "fair pre-emption": "kueue_fair_preemption",
    "KAI's division": "kai_resource_division",
    "Gavel's policies": "gavel_policies",
    "water-filling levels": "gavel_water_filling",
}


@pytest.fixture
def page(root: Path) -> str:
    return (root / "docs" / "fair_sharing.md").read_text()


def test_every_policy_that_is_named_can_be_run(page: str) -> None:
    named = re.findall(r"^\| `([a-z-]+)` \|", page, flags=re.MULTILINE)
    assert len(named) == 9
    assert set(named) <= set(CLUSTER_POLICIES)


def test_the_files_of_the_rules_exist(page: str, root: Path) -> None:
    for name in set(re.findall(r"`([a-z_/]+\.py)`", page)):
        assert (root / "src" / "apportion" / "cluster" / "policies" / "rounds" / name).is_file(), name


def test_the_numbers_of_cases_are_those_of_the_data(page: str, data: Path) -> None:
    for rule, file in FILES.items():
        row = next(line for line in page.splitlines() if line.startswith(f"| {rule} |"))
        counts = [int(number) for number in re.findall(r"\d+", row.split("|")[3])]
        assert len(fairness_cases(data, file)) in counts, rule
