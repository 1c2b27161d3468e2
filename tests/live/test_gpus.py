"""GPUs taken one by one: what Slurm says of nodes, what a pilot asks for, and who may run where."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import apportion.live.controller.step as core_step
import apportion.live.controller.step as generations
from apportion.cli.main import main
from apportion.core.errors import ClusterUnreachable, InvalidInstance, InvalidOption
from apportion.live.agent.rank import environment_of
from apportion.live.channel.messages import Run
from apportion.live.controller.actions import Idle
from apportion.live.controller.advisor import LiveAdvisor
from apportion.live.controller.core import Limits
from apportion.live.controller.deciding import decide
from apportion.live.controller.harvest import make_policy
from apportion.live.controller.placing import Units, placed
from apportion.live.offers import NodeOffer, Share, Size, free_units, misfit
from apportion.live.record.jobs import Job, JobSpec, JobState
from apportion.live.record.state import Hold, Pilot, State
from apportion.live.record.store import Store
from apportion.live.slurm.cluster import details_of_text, idle_units, sizes_of_text, states_of
from apportion.live.slurm.text import NotUnderstood, sound, types_of
from tests.budgets import examples
from tests.cli.calling import call
from tests.live import sequences
from tests.live.model.moves import draw, fair
from tests.live.model.world import Broken, World
from tests.live.test_slurm_text import answers, calls, fake, made

__all__ = ["fake"]

NODES = """
NodeName=n1 CPUAlloc=3 CPUEfctv=8 CPUTot=8 CPULoad=17.36 ActiveFeatures=ib Gres=gpu:a100:4 GresDrain=N/A \
GresUsed=gpu:a100:3(IDX:0,2-3) OS=Linux 6.18 #1 SMP @0  RealMemory=2000 AllocMem=600 State=MIXED \
Partitions=main,harvest  CfgTRES=cpu=4,mem=2000M
NodeName=n2 CPUAlloc=0 CPUTot=4 Gres=gpu:v100:2(S:0-1),shard:8 GresUsed=gpu:v100:0(IDX:N/A),shard:0 \
RealMemory=1000 AllocMem=0 State=IDLE Partitions=main,harvest
NodeName=n3 CPUAlloc=0 CPUTot=2 Gres=(null) GresUsed=gpu:0 RealMemory=500 AllocMem=0 State=IDLE \
Partitions=main,harvest
NodeName=n4 CPUAlloc=0 CPUTot=2 Gres=gpu:2 GresUsed=gpu:0 RealMemory=500 AllocMem=0 State=IDLE+DRAIN \
Partitions=harvest Reason=Gres=gpu:9 [root@x]
NodeName=n5 CPUAlloc=0 CPUTot=2 Gres=gpu:2 GresUsed=gpu:0 RealMemory=500 AllocMem=0 State=IDLE*+PLANNED \
Partitions=harvest
NodeName=n6 CPUAlloc=0 CPUTot=2 Gres=gpu:2 GresUsed=gpu:0 RealMemory=500 AllocMem=0 State=IDLE Partitions=main
NodeName=n7 CPUAlloc=7 CPUTot=8 Gres=gpu GresUsed=gpu:0 RealMemory=500 AllocMem=500 State=MIXED \
Partitions=harvest
"""


def spec(cpus: int | None = None, memory: int | None = None, low: int = 1, high: int = 4) -> JobSpec:
    return JobSpec(("x",), low, high, "/w", "/c", cpus_per_rank=cpus, memory_mib_per_rank=memory)


# what Slurm says


def test_what_scontrol_says_of_nodes_with_gpus() -> None:
    found = details_of_text(NODES, "harvest", "gpu")
    assert {node: (has.offer.gpus, has.idle_gpus, has.open) for node, has in found.items()} == {
        "n1": (4, 1, 1),
        "n2": (2, 2, 2),
        "n4": (2, 2, 0),
        "n5": (2, 2, 0),
        "n7": (1, 1, 0),
    }, "n3 has none, n4 drains, n5 is planned, n6 is of another partition, n7 has no memory left"
    assert found["n1"].offer == NodeOffer(Size(8, 2000, "a100"), 4, 5, 1400)
    assert [found[node].offer.size.type for node in ("n2", "n4")] == ["v100", ""]
    by_feature = details_of_text(NODES, "harvest", "gpu", types_of(("ib", "a100")))
    assert [by_feature[node].offer.size.type for node in ("n1", "n2")] == ["ib", "v100"]
    assert idle_units(found) == ("n1", "n2", "n2")
    assert sound(states_of(found)) == {"n1", "n2", "n4", "n7"}
    assert set(details_of_text(NODES, "harvest", "gpu:a100")) == {"n1"}
    with pytest.raises(NotUnderstood, match="GresUsed"):
        details_of_text(NODES.replace("GresUsed", "Other"), "harvest", "gpu")
    with pytest.raises(NotUnderstood, match="RealMemory"):
        details_of_text(NODES.replace("RealMemory", "Other"), "harvest", "gpu")


def test_a_pilot_asks_for_one_gpu_and_its_share(fake: Path) -> None:
    answers(fake, "sbatch", "77\n")
    cluster = made(fake, gres="gpu:a100")
    cluster.take("n3", "0a1b2c3d-5", "s3cret", Share(3, 700))
    (call_,) = calls(fake)
    asked = [word for word in call_ if word.startswith(("--gres", "--cpus", "--mem", "--exclusive"))]
    assert asked == ["--gres=gpu:a100:1", "--cpus-per-task=3", "--mem=700M"]
    for wrong in ("", "gpu:1,shard:2", "gpu:a100:4", "--gres"):
        with pytest.raises(InvalidOption, match="gres"):
            made(fake, gres=wrong)


def test_gpus_are_looked_at_node_by_node(fake: Path) -> None:
    answers(fake, "squeue", '{"jobs": []}')
    answers(fake, "scontrol", NODES)
    seen = made(fake, gres="gpu").look()
    assert seen.idle == ("n1", "n2", "n2")
    assert seen.offers["n2"].units == 2
    answers(fake, "scontrol", "NodeName=n1 Partitions=harvest State=IDLE\n")
    with pytest.raises(ClusterUnreachable, match="CPUTot"):
        made(fake, gres="gpu").look()
    answers(fake, "sinfo", "3|1\n")
    answers(fake, "scontrol", NODES.replace("gpu", "fpga"))
    with pytest.raises(InvalidOption, match="no node of partition 'harvest' has any gpu"):
        made(fake, gres="gpu").check()


def test_sizes_of_whole_nodes() -> None:
    told = "n1|64+|128000+|ib,v100\nn2|8|500|(null)\n"
    assert sizes_of_text(told)["n1"] == NodeOffer(Size(64, 128000))
    assert sizes_of_text(told, types_of(("a100", "v100")))["n1"].size.type == "v100"
    assert sizes_of_text(told, types_of(("a100", "v100")))["n2"].size.type == ""
    with pytest.raises(NotUnderstood):
        sizes_of_text("8|1\n")


# what fits


def test_a_job_that_fits_no_node_is_told_which_field_is_wrong() -> None:
    sizes = (Size(64, 1000), Size(8, 9000))
    assert misfit(spec(8, 9000), sizes) is None
    assert misfit(spec(999, 10**9), ()) is None, "of nodes nobody has seen nothing is known"
    for wrong, field, told in (
        (spec(65), "cpus_per_rank", "has 64 CPUs"),
        (spec(None, 9001), "memory_mib_per_rank", "has 9000 MiB"),
        (spec(9, 1001), "memory_mib_per_rank", "no node with 9 CPUs has so many MiB"),
    ):
        problem = misfit(wrong, sizes)
        assert problem is not None
        assert problem.path == f"$.{field}"
        assert told in problem.message
    with pytest.raises(InvalidInstance, match="cpus_per_rank"):
        spec(0)


def test_submit_refuses_what_fits_no_node_the_controller_saw(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.commit(State("0a1b2c3d", sizes=(Size(8, 4000),)), 0.0)
    store.close()
    words = ("submit", "--state", tmp_path, "--max", 2, "--memory-mib-per-rank")
    assert call(main, *words, 4000, "--", "x").code == 0
    refused = call(main, *words, 4001, "--", "x")
    assert refused.code == 3
    assert "$.memory_mib_per_rank" in refused.err


def test_a_job_submitted_before_any_node_was_seen_is_failed_with_the_reason() -> None:
    world = World(("n0",), fair, gpus=2)
    world.submit("a", samples=50, cpus=5)
    world.submit("b", samples=50, cpus=4)
    for _ in range(40):
        world.step()
        world.deliver()
        world.step()
        world.wait(1.0)
    jobs = {job.id: job for job in world.disk.jobs.values()}
    assert jobs["a"].state is JobState.FAILED
    assert jobs["a"].message.startswith("$.cpus_per_rank")
    assert jobs["b"].state is JobState.DONE


def test_free_units_by_another_road() -> None:
    """Devices drawn one by one: what is offered is never more than what is idle and on no record of ours."""
    chance = random.Random(5)
    offered = 0
    for _ in range(300):
        gpus = chance.randint(1, 4)
        owners = [chance.choice(["idle", "main", "ours"]) for _ in range(gpus)]
        pending = chance.randint(0, 2)
        lost = chance.random() < 0.2
        idle, listed = owners.count("idle"), owners.count("ours")
        free = free_units(
            {"n": idle},
            {"n": NodeOffer(Size(8, 80), gpus, 8, 80)},
            {"n": listed + pending},
            {"n": pending},
            frozenset("n" if lost else ""),
        )
        assert len(free) == (0 if lost else max(min(idle, gpus - listed) - pending, 0))
        offered += len(free)
    assert offered > 100


# who gets which


def units_of(chance: random.Random) -> tuple[Units, list[Job], np.ndarray, np.ndarray]:
    jobs = [Job(n, f"j{n}", spec(chance.choice([None, 1, 2, 4])), 0.0) for n in range(1, 4)]
    nodes, pilots, before, offers = [], [], [], {}
    for number in range(chance.randint(1, 3)):
        node, gpus = f"n{number}", chance.randint(1, 3)
        idle_cpus = chance.randint(0, 6)
        offers[node] = NodeOffer(Size(8, 100), gpus, idle_cpus, 100)
        for _ in range(min(gpus, 3)):
            fresh = sum(at == node and held is None for at, held in zip(nodes, pilots, strict=True))
            nodes.append(node)
            if chance.random() < 0.5 or fresh >= idle_cpus:  # an idle GPU without a CPU is none
                share = Share(chance.choice([1, 2, 4]), 10)
                fits = [k for k, job in enumerate(jobs) if share.serves(job.spec)]
                before.append(chance.choice([-1, *fits]))
                pilots.append(Pilot(f"p-{len(nodes)}", node, "t", Hold.HELD, 0.0, share=share))
            else:
                before.append(-1)
                pilots.append(None)
    plan = np.array(before)
    free = np.flatnonzero(plan == -1)
    for unit in free.tolist():
        plan[unit] = chance.choice([-1, 0, 1, 2])
    return Units(tuple(nodes), tuple(pilots), offers), jobs, np.array(before), plan


def most_for(units: Units, job: Job, free: list[int]) -> int:
    """Return how many free units a job can have, by trying every set of them."""
    for size in range(len(free), 0, -1):
        for chosen in itertools.combinations(free, size):
            cpus: Counter[str] = Counter()
            able = True
            for unit in chosen:
                pilot, needs = units.pilots[unit], job.spec.cpus_per_rank or 0
                cpus[units.nodes[unit]] += needs if pilot is None else max(needs - pilot.share.cpus, 0)
                able = able and (pilot is not None or units.offers[units.nodes[unit]].idle_cpus > 0)
            if able and all(count <= units.offers[node].idle_cpus for node, count in cpus.items()):
                return size
    return 0


def test_every_job_gets_units_that_have_what_it_needs() -> None:
    chance, shortages, replacements = random.Random(11), 0, 0
    for _ in range(600):
        units, jobs, before, plan = units_of(chance)
        result, replaced, short = placed(units, jobs, before, plan)
        cpus: Counter[str] = Counter()
        for unit, job in enumerate(result.tolist()):
            pilot = units.pilots[unit]
            if job >= 0 and pilot is not None:
                assert pilot.share.serves(jobs[job].spec)
            elif job >= 0:
                cpus[units.nodes[unit]] += jobs[job].spec.cpus_per_rank or 1
        assert all(count <= units.offers[node].idle_cpus for node, count in cpus.items() if count)
        assert (result[(before >= 0) & (plan == before)] == before[(before >= 0) & (plan == before)]).all()
        for job in range(3):
            assert np.count_nonzero(result == job) <= np.count_nonzero(plan == job)
        shortages += len(short)
        replacements += len(replaced)
    assert shortages > 20
    assert replacements > 20


def test_one_job_alone_gets_all_that_fits_it_where_no_pilot_need_be_replaced() -> None:
    chance, cut = random.Random(12), 0
    for _ in range(400):
        units, jobs, before, plan = units_of(chance)
        job = jobs[0]
        before, plan = np.full(len(before), -1), np.zeros(len(plan), dtype=np.int64)
        held = [pilot for pilot in units.pilots if pilot is not None]
        if job.spec.cpus_per_rank is None or not all(pilot.share.serves(job.spec) for pilot in held):
            continue
        result, replaced, short = placed(units, [job], before, plan)
        most = most_for(units, job, list(range(len(plan))))
        got = int(np.count_nonzero(result == 0)) + len(replaced)
        assert got == most
        assert short == ({} if got == len(plan) else {0: got})
        cut += bool(short)
    assert cut >= 10


def test_a_decision_gives_the_larger_job_the_gpus_with_enough_cpus() -> None:
    state = State("0a1b2c3d")
    state.jobs = {
        1: Job(1, "small", spec(1, high=4), 0.0),
        2: Job(2, "large", spec(6, low=2, high=2), 0.0),
    }
    offers = {"n1": NodeOffer(Size(16, 100), 4, 4, 100), "n2": NodeOffer(Size(16, 100), 2, 16, 100)}
    advisor = LiveAdvisor()
    idle = Idle(("n1", "n1", "n2", "n2"), lambda node: 0.0, (), offers)
    policies = partial(make_policy, "equal-share", 60.0, Limits())
    decision = decide(state, idle, policies, advisor, Limits(), 0.0, ())
    assert [decision.nodes[k] for k in np.flatnonzero(decision.plan.holder == 1)] == ["n2", "n2"]
    assert [decision.nodes[k] for k in np.flatnonzero(decision.plan.holder == 0)] == ["n1", "n1"]
    offers["n2"] = NodeOffer(Size(16, 100), 2, 11, 100)
    decision = decide(state, idle, policies, advisor, Limits(), 0.0, ())
    assert decision.counts.tolist() == [4, 0], "one GPU of n2 would have to do without its CPUs"


# the core on the model


def test_nothing_breaks_on_nodes_with_two_gpus() -> None:
    start = sequences.begun(gpus=2)
    assert len({agent.node for agent in start.agents.values() if agent.rank is not None}) == 2
    for number in range(examples(200)):
        world = start.copy()
        sequences.play_all(world, draw(random.Random(f"gpus {number}"), 20))
        assert world.finished and all(job.ended for job in world.disk.jobs.values())


def beside_a_forgotten_pilot() -> World:
    """Play: the pilot on GPU 0 is forgotten, its agent frozen, its job cancelled, and another job comes."""
    world = World(("n0",), fair, gpus=2)
    world.submit("a", samples=1_000_000)
    for _ in range(4):
        world.step()
        world.deliver()
        world.wait(1.0)
    for agent in world.agents.values():
        agent.frozen = True
    world.forget("n0")
    world.cancel("a")
    world.submit("b", samples=40)
    world.wait(1.0)
    for _ in range(6):
        world.step()
        world.deliver()
        world.wait(1.0)
    return world


def test_nothing_is_started_beside_a_pilot_that_slurm_forgot() -> None:
    world = beside_a_forgotten_pilot()
    assert [agent.rank.name for agent in world.agents.values() if agent.rank is not None] == [("a", 1)]
    world.run_to_the_end()
    assert next(job for job in world.disk.jobs.values() if job.id == "b").state is JobState.DONE


def test_without_the_two_guards_a_gpu_is_used_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    real = core_step.see_offers

    def trusting(draft, seen):  # type: ignore[no-untyped-def]
        lost = {name: pilot.lost_s for name, pilot in draft.state.pilots.items()}
        for pilot in draft.state.pilots.values():
            pilot.lost_s = None
        real(draft, seen)
        for name, at_s in lost.items():
            draft.state.pilots[name].lost_s = at_s

    class Nothing(set[str]):
        def __contains__(self, node: object) -> bool:
            return False

    monkeypatch.setattr(core_step, "see_offers", trusting)
    monkeypatch.setattr(generations, "_doubtful", lambda state: Nothing())
    with pytest.raises(Broken, match="two ranks on a GPU"):
        beside_a_forgotten_pilot()


# the rank


def test_a_rank_keeps_the_gpu_that_slurm_gave_its_pilot() -> None:
    run = Run(
        "j",
        1,
        0,
        ("n1", "n1"),
        "h:1",
        ("x",),
        "/w",
        "/c",
        "t" * 16,
        environment={"CUDA_VISIBLE_DEVICES": "7"},
    )
    base = {"SLURM_JOB_GPUS": "2", "CUDA_VISIBLE_DEVICES": "2", "SLURM_JOB_ID": "5"}
    told = environment_of(run, base, 1)
    assert told["CUDA_VISIBLE_DEVICES"] == "2"
    assert not any(name.startswith("SLURM") for name in told)
    assert environment_of(run, {"CUDA_VISIBLE_DEVICES": "0,1"}, 1)["CUDA_VISIBLE_DEVICES"] == "7", (
        "a whole node"
    )
