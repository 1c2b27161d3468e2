"""From measured steps and gradients to a freezing profile, and from its file to what a simulation uses."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

from apportion.cli.main import main
from apportion.cluster.estimation.fitting import fitted_profile, retained_by_phase, retained_progress
from apportion.cluster.estimation.measured_steps import read_layers, read_steps
from apportion.cluster.estimation.training.freezing_profile import (
    FreezingFile,
    freezing_profiles,
    read_freezing,
)
from apportion.core.errors import InvalidInstance, InvalidOption
from tests.cli.calling import call

LAYERS = "frozen_layers,param_frac_unfrozen\n" + "".join(f"{k},{1 - k / 10}\n" for k in range(10))
GRADIENTS = "phase,layer,grad_sqr,grad_var\n" + "".join(
    f"{phase},{layer},{1 + layer},{phase * (10 - layer)}\n" for phase in (0.25, 0.75) for layer in range(10)
)


def steps(sync: float) -> str:
    """A third of every pass goes forward; on two GPUs `sync` seconds do not shrink."""
    rows = [
        f"{placement},{batch},{batch * (1 / 3 + 2 / 3 * (1 - depth / 10)) + extra:.6f},{depth}"
        for placement, extra in (("1", 0.0), ("2", sync))
        for batch in (4, 8, 16)
        for depth in (0, 2, 4, 6)
    ]
    return "\n".join(["placement,local_bsz,step_time,frozen_layer", *rows]) + "\n"


def test_the_law_of_a_profile_is_what_was_measured_by_depth_and_gpus() -> None:
    made = fitted_profile("net", read_steps(steps(8.0)), read_layers(LAYERS))
    assert made.frozen == (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6) and made.gpus == (1, 2)
    assert made.relative_step is not None and made.penalty is None
    alone, pair = (np.array(row) for row in made.relative_step)
    share = np.array(made.frozen)
    assert alone == pytest.approx(1 / 3 + 2 / 3 * (1 - share), abs=0.01)
    # 8 s of 16 at the middle batch do not shrink: half the saving is left
    assert pair == pytest.approx((1 + alone) / 2, abs=0.03)


def test_a_profile_begins_at_nothing_frozen() -> None:
    late = "\n".join(line for line in steps(1.0).splitlines() if not line.endswith(",0"))
    with pytest.raises(InvalidOption, match="nothing frozen"):
        fitted_profile("net", read_steps(late), read_layers(LAYERS))


def test_psi_is_that_of_the_gradients_phase_by_phase(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text(GRADIENTS)
    phases, psi = retained_by_phase(tmp_path / "g.csv")
    layer = np.arange(10)
    assert phases.tolist() == [0.25, 0.75]
    for row, phase in zip(psi, phases.tolist(), strict=True):
        assert row == pytest.approx(retained_progress(1.0 + layer, phase * (10 - layer)))
    (tmp_path / "g.csv").write_text(GRADIENTS.replace("0.75,3,4,5.25\n", ""))
    with pytest.raises(InvalidInstance, match=r"phase 0.75: has no row for layer 3"):
        retained_by_phase(tmp_path / "g.csv")


def test_fit_writes_a_profile_that_simulate_reads(tmp_path: Path) -> None:
    for name, text in (("steps", steps(8.0)), ("layers", LAYERS), ("gradients", GRADIENTS)):
        (tmp_path / f"{name}.csv").write_text(text)
    told = tmp_path / "large_net.json"
    files = [str(tmp_path / f"{name}.csv") for name in ("steps", "layers", "gradients")]
    asked = ["fit", files[0], "--layers", files[1], "--gradients", files[2], "--profile", str(told)]
    assert call(main, *asked).code == 0
    assert read_freezing(tmp_path)["large_net"].gpus == (1, 2)
    cluster = Path(__file__).parents[2] / "examples" / "cluster"
    simulate = ["simulate", "--profiles", str(cluster / "profiles"), "--nodes", "2"]
    simulate += ["--workload", str(cluster / "workload.csv"), "--policy", "icefrog", "--json"]
    frozen = call(main, *simulate, "--freezing", str(tmp_path))
    assert frozen.code == 0 and json.loads(frozen.out)["mean_frozen_fraction"] > 0
    assert list(json.loads(frozen.out)["cannot_freeze"]) == ["small_net"]
    assert "small_net" in frozen.err and "large_net" not in frozen.err


def test_a_profile_without_step_times_freezes_only_with_a_stand_in() -> None:
    whole = {
        "schema_version": "1",
        "application": "whole",
        "frozen": (0.0, 0.5),
        "gpus": (1,),
        "relative_step": ((1.0, 0.6),),
        "penalty": {"phases": (0.5,), "retained": ((1.0, 0.8),)},
    }
    files = {
        "whole": msgspec.convert({"kind": "freezing_profile", **whole}, FreezingFile),
        "untimed": msgspec.convert(
            {
                "kind": "freezing_profile",
                **whole,
                "application": "untimed",
                "gpus": (),
                "relative_step": None,
            },
            FreezingFile,
        ),
    }
    assert list(freezing_profiles(files)) == ["whole"]
    stood_in = freezing_profiles(files, "whole")["untimed"]
    assert stood_in.deepest == 5 and stood_in.relative_step(1)[5] == pytest.approx(0.6)
    # on several GPUs that nobody measured, synchronisation stays as it is
    assert stood_in.seconds(3.0, 1.0, 0, 4)[5] == pytest.approx(2.0 * 0.6 + 1.0)
    assert stood_in.seconds(3.0, 0.0, 2, 1)[5] == pytest.approx(3 * 3.0 * 0.6)
    with pytest.raises(InvalidOption, match=r"'untimed' has no measured .*: whole"):
        freezing_profiles(files, "untimed")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"frozen": (0.1, 0.5)}, r"\$.frozen: must rise from 0"),
        ({"relative_step": ((1.0,),)}, r"\$.relative_step\[0\]: must have 2 numbers, has 1"),
        ({"relative_step": ((1.0, 0.0),)}, r"\$.relative_step\[0\]: must begin with 1 and stay above 0"),
        ({"gpus": (1, 2)}, r"\$.relative_step: must have 2 rows, has 1"),
        ({"penalty": {"phases": (0.5,), "retained": ((1.0, 1.1),)}}, r"retained\[0\]: must begin with 1"),
        ({"penalty": {"phases": (0.5, 0.5), "retained": ((1.0, 0.9),) * 2}}, r"\$.penalty.phases: must rise"),
    ],
)
def test_a_wrong_profile_is_one_clear_error(tmp_path: Path, change: dict[str, object], message: str) -> None:
    right = {
        "kind": "freezing_profile",
        "schema_version": "1",
        "application": "net",
        "frozen": (0.0, 0.5),
        "gpus": (1,),
        "relative_step": ((1.0, 0.6),),
    }
    (tmp_path / "net.json").write_text(json.dumps(right))
    assert read_freezing(tmp_path)["net"].penalty is None
    (tmp_path / "net.json").write_text(json.dumps(right | change))
    with pytest.raises(InvalidInstance, match=rf"net.json: .*{message}"):
        read_freezing(tmp_path)
