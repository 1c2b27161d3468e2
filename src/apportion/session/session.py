"""An instance with memory: deltas change it, decisions answer it, and what is known stays warm between."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Generic, Unpack, cast

from apportion.api import solve_compiled
from apportion.errors import InvalidInstance
from apportion.instances.draft import Draft
from apportion.instances.kinds import Instance, kind_of
from apportion.options import Incumbent, SolveOptions
from apportion.registry import Backend, formulation
from apportion.session.applying import apply_all
from apportion.session.by_policy import PolicyDesk, asked_policy, name_of
from apportion.session.compiling import RememberingCompiler
from apportion.session.decision import Decision, changes_between, digest_of
from apportion.session.deltas import (
    AddJob,
    Delta,
    RemoveJob,
    SetCapacity,
    SetNodes,
    UpdateJob,
    read_deltas,
)
from apportion.session.job_fields import JobFields, NewJobFields
from apportion.solution import Planned, PlanT, Solution

__all__ = ["Session"]


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
        self._desk = PolicyDesk()
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
            Messages of `apportion.session.deltas`, or as decoded from JSON: ``{"op": "remove_job", "id":
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
