"""A scheduler's session: an instance with memory, changed by deltas, decided again and again.

What is known stays warm between decisions: a changed instance is compiled from the formulation of the one
before.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypedDict, Unpack, cast

from apportion.core.errors import InvalidInstance
from apportion.core.options import Incumbent, SolveOptions
from apportion.core.solution import Planned, PlanT, Solution
from apportion.formulations.protocol import Formulation
from apportion.instances.draft import Draft, is_tenanted
from apportion.instances.kinds import Instance, kind_of
from apportion.service.applying import apply_all
from apportion.service.by_policy import PolicyRunner, asked_policy, name_of
from apportion.service.decision import Decision, changes_between, digest_of
from apportion.service.deltas import AddJob, Delta, RemoveJob, SetCapacity, SetNodes, UpdateJob, read_deltas
from apportion.solving.api import solve_compiled
from apportion.solving.call import Subject
from apportion.solving.compiled_model import CompiledModel
from apportion.solving.pipeline import compiled, structured
from apportion.solving.registry import Backend, FormulationEntry, formulation

if TYPE_CHECKING:
    from apportion.explanation.comparison import Comparison

__all__ = ["JobFields", "NewJobFields", "RememberingCompiler", "Session", "what_if"]


class JobFields(TypedDict, total=False):
    """Every field of a job of any kind but its id, as `apportion.Session.update_job` takes them.

    Values are as they stand in an instance; `apportion.Session.apply` checks them and the kind.
    """

    min_nodes: int
    max_nodes: int
    scaling: Any
    rescale_up_s: float
    rescale_down_s: float
    current_nodes: Any
    pinned_count: int | None
    forbidden_counts: Any
    allowed_counts: Any
    options: Any
    current: Any
    pinned: str | None
    forbidden: Any
    on: Any
    layers: int
    menu: Any
    age_s: float
    restarts: int
    restart_s: float
    rebuild_s: float
    reference_progress: float | None
    budget_frozen_s: float | None
    max_depth: int | None
    remaining_work: float | None
    weight: float
    required: bool
    tenant: str
    preemptible: bool
    running_s: float
    stop_cost: float
    submitted_s: float
    priority: int
    finish: Any
    best_rate: float
    labels: Any
    fixed: bool


class NewJobFields(JobFields, total=False):
    """Every field of a job of any kind, as `apportion.Session.add_job` takes them."""

    id: str


_WORTH_PATCHING = 4096
"""Options; 1,300 of gap filling are compiled whole in half the time that patching them takes."""


class RememberingCompiler:
    """Called as `apportion.solving.pipeline.structured`; it keeps the last formulation of every entry.

    A formulation that can be patched (``patched(instance)``, of menus) is: jobs that are the same objects
    keep their part of the arrays. Everything else is compiled again.

    Parameters
    ----------
    least_options
        Options of a model from which on patching it is tried; smaller ones are compiled sooner, unless
        nothing but capacities has changed.

    Attributes
    ----------
    patched
        How often a formulation was patched.
    compiled
        How often one was compiled whole.
    """

    def __init__(self, least_options: int = _WORTH_PATCHING) -> None:
        self._least_options = least_options
        self._known: dict[str, Formulation] = {}
        self.patched = 0
        self.compiled = 0

    def __call__(self, subject: Subject, entry: FormulationEntry) -> CompiledModel:
        """Return the structured model of an instance as an entry says."""
        return structured(subject, entry, self._compile)

    def __reduce__(self) -> tuple[type[RememberingCompiler], tuple[int]]:
        return (RememberingCompiler, (self._least_options,))  # what is compiled is not sent anywhere

    def _compile(self, subject: Subject, entry: FormulationEntry) -> Formulation:
        earlier: Any = self._known.pop(entry.name, None)  # given up to the patch, also where that is torn
        patch = getattr(earlier, "patched", None)
        found: Formulation | None = None
        if patch and self._is_worth_patching(earlier, subject) and not is_tenanted(subject):
            found = patch(subject)
        if found is None:
            found = compiled(subject, entry)
            self.compiled += 1
        else:
            self.patched += 1
        self._known[entry.name] = found
        return found

    def _is_worth_patching(self, earlier: Any, subject: Any) -> bool:
        """Return whether a model is large, or all of its jobs are as they were."""
        return earlier.model.num_options >= self._least_options or earlier.instance.jobs is subject.jobs


class Session(Generic[PlanT]):
    """An instance that a scheduler keeps, changes and has decided all day.

    Parameters
    ----------
    instance
        Where it begins: an instance of any kind.
    compiler
        What compiles it; by default one that patches what it compiled before.
    hypothetical
        Whether more of a capacity may make up names of nodes. A session of real nodes has them named
        (`set_nodes`); a question "what if" has not.

    Notes
    -----
    Threads may share a session: one of them is served at a time.

    Examples
    --------
    >>> import apportion
    >>> session = apportion.Session(apportion.read("examples/gap_filling_small.json"))
    >>> first = session.decide()
    >>> first.status.value, round(first.objective)
    ('optimal', 13494956)
    """

    def __init__(
        self,
        instance: Planned[PlanT],
        *,
        compiler: RememberingCompiler | None = None,
        hypothetical: bool = False,
    ) -> None:
        self._lock = threading.RLock()
        self._draft = Draft(cast(Instance, instance))
        self._hypothetical = hypothetical
        self._compiler = RememberingCompiler() if compiler is None else compiler
        self._desk = PolicyRunner()
        self._edits: list[str] = []
        self._decided = 0
        self._last: Solution[PlanT] | None = None
        self._plan: PlanT | None = None

    def __repr__(self) -> str:
        return f"<Session of {self.instance!r}, {self._decided} decisions>"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.RLock())

    @property
    def instance(self) -> Instance:
        """The instance as it is now."""
        return self._draft.instance()

    @property
    def digest(self) -> str:
        """SHA-256, as hex, of the instance as canonical JSON: equal instances have equal digests."""
        return digest_of(self.instance)

    @property
    def plan(self) -> PlanT | None:
        """The plan of the last decision that had one, ``None`` before."""
        return self._plan

    def apply(self, *deltas: Any) -> Instance:
        """Change the instance: all of the deltas in their order, or none of them.

        Parameters
        ----------
        deltas
            Messages of `apportion.service.deltas`, or as decoded from JSON: ``{"op": "remove_job", "id":
            "j0"}``.

        Returns
        -------
        Instance
            The instance as it is now.

        Raises
        ------
        InvalidInstance
            If one cannot be applied; nothing is changed then. Paths begin with ``$.deltas[k]``.
        """
        read: list[Delta] = read_deltas(deltas)
        with self._lock:
            draft = self._draft.copied()
            apply_all(draft, read, hypothetical=self._hypothetical)
            self._draft = draft
            self._edits.extend(delta.words() for delta in read)
            return draft.instance()

    def add_job(self, job: Any = None, **fields: Unpack[NewJobFields]) -> Instance:
        """Add a job, given as such, as an object or by its fields; see `apply`."""
        if job is not None and fields:
            raise InvalidInstance.at("$.deltas[0].job", "is given, and fields beside it: give one of the two")
        return self.apply(AddJob(fields if job is None else job))

    def update_job(self, id: str, **fields: Unpack[JobFields]) -> Instance:
        """Change some fields of a job; see `apply`."""
        return self.apply(UpdateJob({"id": id, **fields}))

    def remove_job(self, id: str) -> Instance:
        """Take a job away; see `apply`."""
        return self.apply(RemoveJob(id))

    def set_capacity(self, name: str, amount: int) -> Instance:
        """Set how much there is of a capacity; see `apply`. More nodes have names: `set_nodes`."""
        return self.apply(SetCapacity(name, amount))

    def set_nodes(self, nodes: Any) -> Instance:
        """Set the nodes that are idle; see `apply`."""
        return self.apply(SetNodes(nodes))

    def decide(
        self,
        policy: str | Callable[[Any], Any] | None = None,
        time_limit: float | None = 10.0,
        *,
        time_s: float | None = None,
        backend: str | Backend = "auto",
        gap: float = 0.0,
        threads: int = 1,
        seed: int = 0,
        deterministic: bool = False,
        work_limit: float | None = None,
        on_incumbent: Callable[[Incumbent], None] | None = None,
        proof: bool = False,
    ) -> Decision[PlanT]:
        """Decide what every job gets now.

        Parameters
        ----------
        policy
            The name of a policy, or a policy itself; ``None`` for the optimum of the instance, as
            `apportion.solve` finds it (``"optimal"``, as answers call it). What a policy learns it keeps
            for the next decision.
        time_s
            What time it is for a policy, in seconds; the clock of this machine by default.
        time_limit, backend, gap, threads, seed, deterministic, work_limit, on_incumbent, proof
            As in `apportion.solve`.

        Raises
        ------
        InvalidOption
            If an option is out of range or does not fit the instance, or a policy cannot decide it.
        BackendUnavailable
            If the backend is unknown or missing.
        """
        began = time.perf_counter()
        options = SolveOptions(
            time_limit=None if deterministic else time_limit,
            gap=gap,
            threads=threads,
            seed=seed,
            deterministic=deterministic,
            work_limit=work_limit,
            on_incumbent=on_incumbent,
        )
        policy = asked_policy(policy)
        with self._lock:
            if policy is None:
                found = solve_compiled(
                    self.instance, self._compiler, options, backend, warm_start=self._last, proof=proof
                )
                return self._noted(None, found, began)
            name = name_of(policy)
            return self._noted(name, self._by_policy(policy, options, time_s), began)

    def _by_policy(
        self, policy: str | Callable[[Any], Any], options: SolveOptions, time_s: float | None
    ) -> Solution[PlanT]:
        instance = self.instance
        structure = self._compiler(instance, formulation(kind_of(instance).name, None))
        return self._desk.decide(policy, instance, structure, self._last, options, time_s)

    def _noted(self, policy: str | None, solution: Solution[PlanT], began: float) -> Decision[PlanT]:
        before, edits = self._plan, tuple(self._edits)
        self._decided += 1
        self._edits.clear()
        if solution.plan is not None:
            self._last, self._plan = solution, solution.plan
        return Decision(
            number=self._decided,
            policy=policy,
            solution=solution,
            changes=() if solution.plan is None else changes_between(before, solution.plan),
            edits=edits,
            seconds=time.perf_counter() - began,
        )


def what_if(
    instance: Any, deltas: Sequence[Any], *, backend: str = "auto", time_limit: float = 20.0
) -> Comparison:
    """Solve an instance as it is and with deltas, and say who wins, who loses and by how much.

    Parameters
    ----------
    instance
        An instance; it is not changed.
    deltas
        Messages as `Session.apply` takes them.
    backend
        As in `apportion.solve`, for both solves.
    time_limit
        Seconds for both together.

    Raises
    ------
    InvalidInstance
        If one of the deltas cannot be applied.
    """
    from apportion.explanation.comparison import compare

    session = Session(instance, hypothetical=True)
    words = tuple(delta.words() for delta in read_deltas(deltas))
    before = session.decide(time_limit=time_limit / 2, backend=backend)
    session.apply(*deltas)
    after = session.decide(time_limit=max(time_limit - before.seconds, time_limit / 2), backend=backend)
    return compare(before.solution, after.solution, words)
