"""Trainers that really train: exact counts, falling loss, and nothing lost over resizes and lost peers."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from apportion.live.channel.messages import STOPPED
from apportion.live.trainer_protocol import Assignment, NotHarvested, claim
from apportion.live.trainers.checkpoints import (
    Superseded,
    draw,
    durable_samples,
    restore,
    save,
    share,
    targets,
)
from apportion.live.trainers.numpy_mlp import Network, State
from apportion.live.trainers.torch_store import store_path
from apportion.live.trainers.torchrun import environment_of
from tests.live.agents import SRC, Site
from tests.patience import patience

NUMPY = (sys.executable, "-m", "apportion.live.trainers.numpy_mlp", "--save-every-s", "0.5")
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "trainers" / "minimal.py"
TORCHRUN = (
    *(sys.executable, "-m", "apportion.live.trainers.torchrun", "--nnodes", "1:8", "--"),
    *("-m", "apportion.live.trainers.torch_gloo", "--save-every-s", "0.5"),
)
torch_is_here = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="PyTorch is not installed (the extra `torch`)"
)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    made.start("a-1", "a-2", "a-3")
    yield made
    made.close()


def _checkpoint(site: Site) -> State:
    state = restore(site.folder / "j1", State.read)
    assert state is not None
    return state


def test_samples_are_counted_exactly_over_growing_shrinking_and_a_lost_peer(site: Site) -> None:
    command = [*NUMPY, "--rates", "1:1000,2:1500,3:2000"]
    names: list[Sequence[str]] = [["a-1"], ["a-1", "a-2", "a-3"], ["a-2", "a-3"]]
    losses, restored = [], [0]
    for generation, pilots in enumerate(names, start=1):
        site.run(pilots, command, generation, samples=10**9)
        first = site.progress(restored[-1], generation)
        # what was restored is durable from the first report on; the agent passes on the newest it has read
        assert first.samples >= first.durable >= restored[-1]
        site.progress(restored[-1] + 800, generation)
        if generation == 3:
            break
        site.stop(pilots, generation)
        assert {one.code for one in site.exits(pilots, generation)} == {STOPPED}
        state = _checkpoint(site)
        assert state.ledger == state.samples * (state.samples - 1) // 2
        restored.append(state.samples)
        losses.append(state.loss)
    site.processes["a-3"].kill()  # a node dies without a word
    [ended] = site.exits(["a-2"], 3)
    assert ended.code == STOPPED and not ended.asked
    assert ended.last is not None and ended.last.durable == ended.last.samples > restored[-1]
    goal = ended.last.durable + 2001  # no multiple of any batch
    site.run(["a-1", "a-2"], command, 4, samples=goal)
    ends = site.exits(["a-1", "a-2"], 4)
    assert [one.code for one in ends] == [0, 0]
    assert ends[0].last is not None and ends[0].last.done
    assert ends[0].last.samples == ends[0].last.durable == goal
    state = _checkpoint(site)
    assert (state.samples, state.ledger) == (goal, goal * (goal - 1) // 2)
    losses.append(state.loss)
    assert losses[0] > losses[1] > losses[2]  # type: ignore[operator]


def test_losing_rank_0_loses_no_more_than_the_step_in_hand(site: Site) -> None:
    site.run(["a-1", "a-2"], [*NUMPY, "--save-every-s", "1000", "--rates", "1:500,2:1000"], samples=10**6)
    seen = site.progress(500).samples
    site.processes["a-1"].send_signal(signal.SIGKILL)
    [ended] = site.exits(["a-2"])
    assert ended.code == STOPPED
    held = durable_samples(site.folder / "j1")
    assert held is not None and held >= seen
    assert ended.last is not None and ended.last.durable == held


def test_a_job_that_is_complete_says_so_again(site: Site) -> None:
    for generation in (1, 2):
        site.run(["a-1"], NUMPY, generation, samples=100)
        [ended] = site.exits(["a-1"], generation)
        assert ended.code == 0
        assert ended.last is not None and ended.last.done and ended.last.samples == 100


def test_the_sum_of_ranks_is_the_step_of_one(site: Site) -> None:
    """Three ranks with a third of the batch each end where one rank with all of it ends."""
    site.run(["a-1", "a-2", "a-3"], [*NUMPY, "--batch", "8"], samples=24 * 20)
    site.exits(["a-1", "a-2", "a-3"])
    together = _checkpoint(site)
    site.run(["a-1"], [*NUMPY, "--batch", "24"], samples=24 * 20, job="alone")
    site.until(lambda: durable_samples(site.folder / "alone") == 24 * 20)
    alone = restore(site.folder / "alone", State.read)
    assert alone is not None
    np.testing.assert_allclose(together.weights, alone.weights, rtol=1e-9, atol=1e-12)
    assert together.steps == alone.steps == 20


def test_the_gradient_is_that_of_finite_differences() -> None:
    network = Network(hidden=3)
    weights = network.begin(0).weights
    inputs = draw(0, 0, 5)
    gradient, error = network.gradient(weights, inputs, targets(inputs))
    for place in range(network.parameters):
        near = []
        for sign in (-1e-6, 1e-6):
            moved = weights.copy()
            moved[place] += sign
            near.append(0.5 * network.gradient(moved, inputs, targets(inputs))[1])
        assert gradient[place] == pytest.approx((near[1] - near[0]) / 2e-6, rel=1e-5, abs=1e-7)
    assert error > 0


def test_a_sample_is_the_same_whoever_draws_it() -> None:
    whole = draw(3, 0, 100)
    parts = [draw(3, *share(0, 100, rank, 7)) for rank in range(7)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    np.testing.assert_array_equal(draw(3, 41, 43), whole[41:43])


# -- checkpoints -------------------------------------------------------------------------------------------


def test_the_newest_checkpoint_is_the_one_with_most_samples_and_a_broken_one_is_passed_over(
    tmp_path: Path,
) -> None:
    state = Network().begin(0)
    for samples in (10, 30, 20):
        state.samples = samples
        save(tmp_path, 1, samples, state.write)
    assert durable_samples(tmp_path) == 30
    (tmp_path / f"state-{1:010d}-{40:020d}").write_bytes(b"PK\x03\x04 half of a file")
    restored = restore(tmp_path, State.read)
    assert restored is not None and restored.samples == durable_samples(tmp_path) == 30
    assert restore(tmp_path / "nowhere", State.read) is None


def test_a_checkpoint_that_cannot_be_written_whole_is_not_there(tmp_path: Path) -> None:
    def fail(file: object) -> None:
        raise OSError("no space left")

    with pytest.raises(OSError):
        save(tmp_path, 1, 5, fail)
    assert list(tmp_path.iterdir()) == []


def test_an_older_generation_publishes_nothing_once_its_successor_has_begun(tmp_path: Path) -> None:
    """Two generations that wrote into one folder could undo one another's work."""
    state = Network().begin(0)
    assert claim(tmp_path, 3) == 3
    save(tmp_path, 3, 100, state.write)
    assert claim(tmp_path, 4) == 4
    with pytest.raises(Superseded) as over:
        save(tmp_path, 3, 900, state.write)
    assert over.value.code == STOPPED
    assert durable_samples(tmp_path) == 100
    assert claim(tmp_path, 3) == 4, "the claim of the later one stands"
    assert [path.name for path in tmp_path.glob(".saving-*")] == []


def test_the_newer_generation_counts_whatever_the_older_one_published_late(tmp_path: Path) -> None:
    state = Network().begin(0)
    state.samples = 70
    save(tmp_path, 5, 70, state.write)
    save(tmp_path, 4, 90, state.write)  # published in the moment before the claim of generation 5 was seen
    restored = restore(tmp_path, State.read)
    assert durable_samples(tmp_path) == 70 and restored is not None and restored.samples == 70


# -- recognising ranks, reading the environment ------------------------------------------------------------


def test_strangers_at_the_rendezvous_are_turned_away(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    limit_s = patience(10.0)
    star = (
        "import sys, time, numpy as np\n"
        "from pathlib import Path\n"
        "from apportion.live.trainer_protocol import Assignment, StopSignal\n"
        "from apportion.live.trainers.numpy_mlp import Star\n"
        "rank, token = int(sys.argv[1]), sys.argv[2]\n"
        f"at, here = ('127.0.0.1', {port}), Path('.')\n"
        "own = Assignment('j', 1, rank, ('a', 'b'), at, here, None, ('h', 1), token, 1)\n"
        f"print(Star(own, StopSignal(), timeout_s={limit_s}).sum(np.array([rank + 1.0])))\n"
    )

    def start(rank: int, token: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": str(SRC)}
        return subprocess.Popen(
            [sys.executable, "-c", star, str(rank), token], env=environment, stdout=subprocess.PIPE, text=True
        )

    hub, stranger = start(0, "right"), start(1, "wrong")
    try:
        time.sleep(1.0)
        with pytest.raises(subprocess.TimeoutExpired):
            hub.wait(0.1)
        peer = start(1, "right")
        said = [one.communicate(timeout=2.0 * limit_s)[0].strip() for one in (hub, peer)]
        assert said == ["[3.]", "[3.]"]
    finally:
        stranger.kill()
        stranger.communicate()


def test_an_environment_without_an_assignment_is_a_clear_error() -> None:
    with pytest.raises(NotHarvested, match="APPORTION_JOB is not set"):
        Assignment.from_environment({})


# -- PyTorch -----------------------------------------------------------------------------------------------


@torch_is_here
@pytest.mark.slow
def test_a_pytorch_trainer_resizes_and_counts_exactly(site: Site) -> None:
    command = [sys.executable, "-m", "apportion.live.trainers.torch_gloo", "--save-every-s", "0.5"]
    goal = 60_001
    site.run(["a-1", "a-2"], command, 1, samples=goal)
    first = site.progress(1000, 1, 60.0)
    site.stop(["a-1", "a-2"], 1)
    assert {one.code for one in site.exits(["a-1", "a-2"], 1)} == {STOPPED}
    site.run(["a-3"], command, 2, samples=goal)
    [ended] = site.exits(["a-3"], 2, 90.0)
    assert ended.code == 0
    assert ended.last is not None and ended.last.done and ended.last.samples == goal == ended.last.durable
    assert ended.last.loss is not None and first.loss is not None and ended.last.loss < first.loss
    counts = _torch_counts(site.folder / "j1")
    assert counts["ledger"] == goal * (goal - 1) // 2


@torch_is_here
@pytest.mark.slow
def test_torchrun_trains_over_two_nodes_and_again_over_one(site: Site) -> None:
    goal = 60_000
    site.run(["a-1", "a-2"], TORCHRUN, 1, samples=goal)
    site.progress(500, 1, 90.0)
    site.stop(["a-1", "a-2"], 1, grace_s=20.0)
    assert {one.code for one in site.exits(["a-1", "a-2"], 1, 60.0)} == {STOPPED}
    held = durable_samples(site.folder / "j1")
    assert held is not None and held >= 500
    site.run(["a-1"], TORCHRUN, 2, samples=goal)
    [ended] = site.exits(["a-1"], 2, 120.0)
    assert ended.code == 0
    assert ended.last is not None and ended.last.samples == goal
    assert _torch_counts(site.folder / "j1")["ledger"] == goal * (goal - 1) // 2


def test_a_rank_finds_what_torchrun_would_have_told_it() -> None:
    assignment = Assignment(
        "j1", 7, 1, ("n1", "n2", "n3"), ("10.0.0.1", 4000), Path("c"), None, ("h", 1), "t", 1.0
    )
    told = environment_of(assignment, {"PATH": "/bin"}, local_rank=2, per_node=4)
    assert told["RANK"] == "6" and told["WORLD_SIZE"] == "12" and told["LOCAL_RANK"] == "2"
    assert told["GROUP_RANK"] == "1" and told["PATH"] == "/bin" and told["TORCHELASTIC_RUN_ID"] == "j1-7"


def test_where_pytorch_ranks_meet_is_closed_to_others(tmp_path: Path) -> None:
    def at(generation: int) -> Path:
        here = tmp_path / "checkpoint"
        return store_path(
            Assignment("j1", generation, 0, ("n1",), ("h", 1), here, None, ("h", 1), "secret", 1.0)
        )

    first = at(1)
    first.write_text("met")
    assert first.parent.stat().st_mode & 0o777 == 0o700
    assert at(2) != first and not first.exists(), "what an older generation left is taken away"
    first.parent.chmod(0o755)
    with pytest.raises(PermissionError, match="mode 0700"):
        at(3)


@torch_is_here
@pytest.mark.slow
def test_nobody_reaches_a_store_of_the_ranks(site: Site) -> None:
    """torchrun's rendezvous kept pickled state in a store that anybody who reached its port could write."""
    first = site.server.agents()["a-1"]
    site.run(["a-1", "a-2"], TORCHRUN, 1, samples=60_000)
    site.progress(500, 1, 120.0)
    with pytest.raises(ConnectionRefusedError), socket.create_connection((first.host, first.port), 5.0):
        pass
    assert {one.code for one in site.exits(["a-1", "a-2"], 1, 180.0)} == {0}


@torch_is_here
@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="only root can try as another user")
def test_another_user_can_neither_read_nor_join_nor_run_anything() -> None:
    """Every folder above the place where ranks meet is open to all here, so that its own mode must do."""
    from tests.live.stranger import ATTEMPTS, attempted

    with tempfile.TemporaryDirectory(prefix="stranger-") as folder, contextlib.ExitStack() as stack:
        base = Path(folder)
        base.chmod(0o755)
        site = Site(base)
        stack.callback(site.close)
        site.start("a-1", "a-2")
        first = site.server.agents()["a-1"]
        site.run(["a-1", "a-2"], TORCHRUN, 1, samples=60_000)
        site.progress(500, 1, 120.0)
        (base / "j1").chmod(0o755)
        [met] = (base / "j1" / ".rendezvous").iterdir()
        told = attempted(met, first.port, base / "channel.pem")
        assert sorted(told) == sorted(ATTEMPTS) and all(told.values()), told
        assert {one.code for one in site.exits(["a-1", "a-2"], 1, 180.0)} == {0}, "it trained on undisturbed"
        assert _torch_counts(base / "j1")["ledger"] == 60_000 * (60_000 - 1) // 2


@torch_is_here
@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="only root can try as another user")
def test_the_same_user_comes_through_where_nothing_is_closed() -> None:
    """What the test before this one is worth: a store on a port and a file that others may write are open."""
    from torch.distributed import TCPStore

    from tests.live.stranger import ATTEMPTS, attempted

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with tempfile.TemporaryDirectory(prefix="stranger-") as folder:
        base, met, secret = Path(folder), Path(folder) / "met", Path(folder) / "secret"
        for path in (met, secret):
            path.touch()
            path.chmod(0o666)
        base.chmod(0o777)
        told = attempted(met, store.port, secret)
    assert told == dict.fromkeys(ATTEMPTS)
    assert store.get("torch.rendezvous.j1-1"), "what torchrun would unpickle is the stranger's"


def _torch_counts(folder: Path) -> dict[str, int]:
    import torch

    held = restore(folder, lambda file: torch.load(file, weights_only=True))
    assert held is not None
    return dict(held["counts"])


def test_the_example_of_the_protocol_stops_and_goes_on(site: Site) -> None:
    command = [sys.executable, str(EXAMPLE)]
    site.run(["a-1"], command, 1, samples=3000)
    site.progress(100, 1)
    site.stop(["a-1"], 1)
    [ended] = site.exits(["a-1"], 1)
    assert ended.code == STOPPED and ended.last is not None and ended.last.samples == ended.last.durable
    held = ended.last.samples
    site.run(["a-2"], command, 2, samples=3000)
    assert site.progress(held, 2).samples >= held
    [ended] = site.exits(["a-2"], 2)
    assert ended.code == 0 and ended.last is not None and ended.last.samples == 3000 and ended.last.done


def test_the_example_of_the_protocol_saves_nothing_once_its_successor_has_begun(site: Site) -> None:
    site.run(["a-1"], [sys.executable, str(EXAMPLE)], 1, samples=10**9)
    site.progress(1, 1)
    held = site.folder / "j1" / "samples-0000000001.json"
    site.until(held.exists)
    claim(held.parent, 3)
    [ended] = site.exits(["a-1"], 1)
    assert ended.code == STOPPED and not ended.asked
    assert ended.last is not None and ended.last.durable == int(held.read_text())
    assert sorted(path.name for path in held.parent.iterdir()) == [".generation-0000000003", held.name]
