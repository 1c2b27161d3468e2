"""The generators: published statistics, valid instances, seeds, and the shipped examples byte for byte."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import msgspec
import numpy as np
import pytest

from apportion.core.errors import InvalidOption
from apportion.instances import Instance, kind_of
from apportion.instances.gap_filling.generator import generate, idle_spells
from apportion.instances.multiple_choice_knapsack.generator import (
    LAWS,
    Law,
    generate_sia,
    sia_option_ids,
    to_instance,
)
from apportion.instances.multiple_choice_knapsack.generator import generate as generate_menus
from apportion.models import MultipleChoiceKnapsack


@pytest.fixture(scope="module")
def examples(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("apportion_examples", root / "examples/generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", [0, 1])
def test_idle_spells_have_the_published_statistics(seed: int) -> None:
    """The real machine and time span: 4,734 nodes, 14.9 days, 423,354 complete spells."""
    num_nodes, duration_s = 4734, 1_289_437
    spells = idle_spells(seed, num_nodes, duration_s)
    length = (spells.end_s - spells.start_s)[spells.complete]
    assert length.size == pytest.approx(423_354, rel=0.015)
    assert np.median(length) == pytest.approx(475, rel=0.01)
    assert length.mean() == pytest.approx(1192, rel=0.015)
    assert length.min() == 70 and length.max() <= 271_990
    assert np.percentile(length, [10, 25, 75, 90, 95, 99]) == pytest.approx(
        [91, 162, 1397, 3269, 4723, 9246], rel=0.015
    )
    limits = (120, 300, 600, 1200, 1800, 3600, 7200)
    by_count = [np.mean(length < limit) for limit in limits]
    by_time = [length[length < limit].sum() / length.sum() for limit in limits]
    assert by_count == pytest.approx([0.151, 0.402, 0.558, 0.710, 0.805, 0.911, 0.980], abs=0.005)
    assert by_time == pytest.approx([0.011, 0.051, 0.108, 0.216, 0.333, 0.559, 0.839], abs=0.01)
    idle_share = (spells.end_s - spells.start_s).sum() / (num_nodes * duration_s)
    assert idle_share == pytest.approx(0.0827, rel=0.01)


def test_idle_spells_are_ordered_apart_and_inside_the_time() -> None:
    spells = idle_spells(3, 50, 20_000)
    assert (
        spells.start_s.min() == 0 and spells.end_s.max() == 20_000 and (spells.start_s < spells.end_s).all()
    )
    same = spells.node[1:] == spells.node[:-1]
    assert (spells.node[1:] >= spells.node[:-1]).all()
    assert (spells.end_s[:-1] < spells.start_s[1:])[same].all()
    assert not spells.complete.all()


def test_no_second_of_a_generated_trace_is_special() -> None:
    """The mean idle count at the start agrees with the middle's: there is no warm-up left in it."""
    spells = idle_spells(4, 60_000, 3_600)
    counts = [spells.idle_at(at).size / 60_000 for at in (0, 1_800, 3_599)]
    assert counts == pytest.approx([0.0827] * 3, abs=0.004)


@pytest.mark.parametrize("bad", [(-1, 10, 0.1), (5, 0, 0.1), (5, 10, 0.0), (5, 10, 1.0)])
def test_idle_spells_refuse_arguments_out_of_range(bad: tuple[int, int, float]) -> None:
    with pytest.raises(InvalidOption):
        idle_spells(0, *bad)


@pytest.mark.parametrize(("jobs", "nodes"), [(6, 24), (30, 500), (1, 1), (3, 0), (0, 5), (9, 4), (200, 1500)])
def test_a_generated_instance_has_what_was_asked_for(jobs: int, nodes: int) -> None:
    instance = generate(5, jobs, nodes)
    assert (len(instance.jobs), len(instance.nodes)) == (jobs, nodes)
    held = [node for job in instance.jobs for node in job.current_nodes]
    assert len(set(held)) == len(held) and set(held) <= set(instance.nodes)
    assert all(17 <= job.rescale_up_s <= 19 and 11 <= job.rescale_down_s <= 13 for job in instance.jobs)
    assert all((job.min_nodes, job.max_nodes) == (1, 64) for job in instance.jobs)
    assert generate(5, jobs, nodes) == instance
    if nodes >= 24 and jobs:
        assert generate(6, jobs, nodes) != instance
        assert 0 < len(held) < nodes


@pytest.mark.parametrize(
    "bad",
    [
        {"jobs": -1},
        {"nodes": -1},
        {"min_nodes": 0},
        {"max_nodes": 65},
        {"min_nodes": 9, "max_nodes": 8},
        {"decided_ago_s": 3601},
    ],
)
def test_generate_refuses_arguments_out_of_range(bad: dict[str, int]) -> None:
    with pytest.raises(InvalidOption):
        generate(**{"seed": 0, "jobs": 2, "nodes": 5, **bad})


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("num_capacities", [1, 3])
def test_menus_follow_their_law(law: Law, num_capacities: int) -> None:
    menus = generate_menus(2, law, 40, 6, num_capacities, largest_use=100)
    model = MultipleChoiceKnapsack.from_arrays(*menus)
    assert (model.num_jobs, model.num_options, model.num_capacities) == (40, 240, num_capacities)
    mean = menus.uses.mean(axis=1)
    if law == "uncorrelated":
        assert menus.values.min() >= 1 and menus.values.max() <= 100
        assert abs(np.corrcoef(menus.values, mean)[0, 1]) < 0.25
    elif law == "weakly_correlated":
        assert (np.abs(menus.values - mean) <= 10.5).all()
    elif law == "strongly_correlated":
        items = np.tile(np.arange(1, 7), 40)
        assert menus.values == pytest.approx(mean + 10 * items)
    else:
        assert menus.values == pytest.approx(mean)
    per_job = menus.uses.reshape(40, 6, num_capacities)
    half = (per_job.min(axis=1).sum(axis=0) + per_job.max(axis=1).sum(axis=0)) // 2
    assert (menus.capacities == half).all()
    assert all(
        (one == two).all()
        for one, two in zip(menus[:4], generate_menus(2, law, 40, 6, num_capacities, 100)[:4], strict=True)
    )


def test_a_million_jobs_are_generated_without_a_loop() -> None:
    menus = generate_menus(0, "weakly_correlated", 1_000_000, 8)
    assert menus.values.size == 8_000_000 and menus.offsets[-1] == 8_000_000


def test_menus_and_their_instance_agree() -> None:
    menus = generate_menus(8, "uncorrelated", 5, 3, 2, required=False)
    instance = to_instance(menus, "drawn")
    assert instance.name == "drawn" and list(instance.capacities.values()) == menus.capacities.tolist()
    assert [option.value for job in instance.jobs for option in job.options] == menus.values.tolist()
    uses = [list(option.uses.values()) for job in instance.jobs for option in job.options]
    assert uses == menus.uses.tolist() and not any(job.required for job in instance.jobs)


@pytest.mark.parametrize(
    ("law", "sizes"),
    [("none", (1, 1, 1)), ("subset_sum", (-1, 1, 1)), ("subset_sum", (1, 0, 1)), ("subset_sum", (1, 1, 0))],
)
def test_menus_refuse_arguments_out_of_range(law: Law, sizes: tuple[int, int, int]) -> None:
    with pytest.raises(InvalidOption):
        generate_menus(0, law, *sizes)


@pytest.mark.parametrize(
    ("scale", "jobs", "options"), [(1, 48, 19), (2, 96, 30), (4, 192, 52), (16, 768, 184)]
)
def test_sia_rounds_have_the_published_sizes(scale: int, jobs: int, options: int) -> None:
    """48 x 19, 96 x 30, 192 x 52 and 768 x 184 are the sizes of Sia's ILP at 64, 128, 256 and 1,024 GPUs."""
    menus = generate_sia(1, scale)
    model = MultipleChoiceKnapsack.from_arrays(*menus)
    assert (model.num_jobs, model.num_options) == (jobs, jobs * options)
    assert model.capacities.sum() == 64 * scale and not model.required.any()
    assert len(set(sia_option_ids(scale))) == options
    worst = menus.values.reshape(jobs, options).min(axis=1)
    assert worst == pytest.approx(np.full(jobs, -0.1))
    assert ((menus.uses > 0).sum(axis=1) == 1).all() and (menus.uses <= menus.capacities).all()
    with pytest.raises(InvalidOption):
        generate_sia(1, 0)


def test_sia_menus_follow_the_law_written_out_by_hand() -> None:
    """The same draws in a plain loop give the same values."""
    rng = np.random.default_rng(9)
    exponent = rng.uniform(0.6, 0.98, (48, 1))
    speed = np.array([1, 2, 4]) * np.exp(rng.normal(0, 0.25, (48, 3)))
    saturation = rng.choice([8, 32, 128, 1024], (48, 1))
    counts = [[1, 2, 4, 8, 12, 16, 20, 24], [1, 2, 4, 8, 16, 24], [1, 2, 4, 8, 16]]
    expected = []
    for job in range(48):
        goodput = [
            speed[job, kind] * count ** exponent[job, 0] / (1 + count / saturation[job, 0])
            for kind in range(3)
            for count in counts[kind]
        ]
        expected += [(entry / min(goodput)) ** 0.5 - 1.1 for entry in goodput]
    assert generate_sia(9).values == pytest.approx(np.array(expected), rel=1e-12)


def test_the_shipped_examples_are_made_again_byte_for_byte(
    examples: ModuleType, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["generate.py", str(tmp_path)])
    examples.main()
    shipped = sorted(path.name for path in (root / "examples").glob("*.json"))
    made = sorted(path.name for path in tmp_path.glob("*.json"))
    assert set(made) == set(examples.EXAMPLES) and set(made) <= set(shipped)
    for name in made:
        raw = (tmp_path / name).read_bytes()
        assert raw == (root / "examples" / name).read_bytes()
        instance = msgspec.json.decode(raw, type=Instance, strict=True)
        assert instance == examples.EXAMPLES[name]() and instance.name == Path(name).stem
        assert kind_of(instance).name


def test_the_small_example_shows_lost_held_and_free_nodes(examples: ModuleType) -> None:
    small = examples.EXAMPLES["gap_filling_small.json"]()
    held = [len(job.current_nodes) for job in small.jobs]
    assert min(held) == 0 and 6 <= sum(held) <= 20
