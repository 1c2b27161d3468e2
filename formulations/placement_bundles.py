"""A placement as menus over bundles of nodes: what lies in a bundle in sum, then placed on its nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import cached_property
from itertools import cycle, islice
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from apportion.formulations.placement import PlacementByShape
from apportion.formulations.protocol import Plan
from apportion.instances.placement import PlacementInstance
from apportion.instances.placement.bundles import (
    MOST_WEIGHT,
    BundledSite,
    bundled_program,
    has_anti_affinity,
    limiting_rows,
    shared_level,
    sharing_rows,
    weights_row,
)
from apportion.instances.placement.kind import as_fixed, limit_tenants
from apportion.instances.placement.placed import Placed
from apportion.instances.placement.program import Row
from apportion.instances.placement.rules import MaxMovesRule
from apportion.models.pods import PodMenus, PodPacking, beside_others, best_fit, keeps_rooms, left_over
from apportion.models.uses import beside

__all__ = ["PlacementByBundle"]

_Jobs = dict[int, tuple[tuple[int, int], ...]]
"""By chooser class and number of the pods that it has in a bundle."""
_SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")
_Nodes = tuple[tuple[int, ...], ...]
"""By chooser the nodes of its pods, by their position in the bundle."""


class PlacementByBundle(PlacementByShape):
    """The choosers of an instance over bundles of its nodes, what is chosen placed on the nodes.

    A relaxation; see `apportion.formulations.protocol.NearPlacingFormulation`.

    Parameters
    ----------
    instance
        The instance.

    Attributes
    ----------
    plain
        The menus under rows that a certificate can name.
    """

    relaxes = True

    def __init__(self, instance: PlacementInstance) -> None:
        made, forms = bundled_program(as_fixed(instance))
        before = len(made.rows)
        limit_tenants(made, instance)
        self._limits = [row.name for row in made.rows[before:]]
        self.compiled(made.instance, made, forms)
        self.plain, self._all, self._anti_affinity = self.model, instance, has_anti_affinity(instance)
        self._known: dict[tuple[int, tuple[Any, ...]], _Nodes] = {}
        self._nodes: Sequence[Sequence[int]] = ()
        if isinstance(site := self.program.site, BundledSite):
            self._nodes = [one.tolist() if one.size > 1 else () for one in site.members]
            self._narrowed = (
                site.narrowed(_running_on(instance, site)) if site.place_limits else site.free_by_node
            )
            free = [tuple(each) for each in self._narrowed.tolist()]
            self._rooms = [tuple(free[node] for node in own) for own in self._nodes]
            self._position = [{node: at for at, node in enumerate(own)} | {-1: -1} for own in self._nodes]
            self._needs = [
                tuple(one.pods.takes(resource) for resource in site.limited) for one in self.program.classes
            ]

    def pod_menus(self) -> PodMenus | None:
        """Return the options as pods on nodes, where nothing but nodes and shared places limits them."""
        from scipy.sparse import csr_array

        site, made = self.program.site, self.program
        if not isinstance(site, BundledSite) or not site.has_patterns or len(made.whole) < len(made.waiting):
            return None
        kinds, (column, of, bundle, count) = made.kinds, made.placed
        row = np.full(len(made.labels), -1, dtype=np.int64)
        row[self.asked.columns] = np.arange(self.asked.columns.size)
        there = row[column] >= 0
        options, shared = row[column[there]], self._sharing
        levels = [shared_level(one.option) for one in made.classes]
        level = np.array([site.across.index(one) if one in site.across else -1 for one in levels], np.int64)
        share = np.full(self.plain.num_options, -1, dtype=np.int64)
        share[options] = np.where(level[of] < 0, -1, bundle * len(site.across) + level[of])[there]
        share[np.bincount(options, count[there], share.size) < 2] = -1
        return PodMenus(
            values=self._worths,
            offsets=self.plain.offsets,
            option=options,
            kind=kinds.of[there],
            count=count[there],
            needs=kinds.needs,
            kind_bundle=kinds.node,
            node_bundle=site.bundle,
            free=site.free_by_node,
            narrowed=self._narrowed if site.place_limits else None,
            rows=csr_array(self.plain.matrix)[:, shared],
            rooms=self.plain.capacities[shared],
            share=share,
            places=[self._across[level][at] for at in range(len(site.nodes)) for level in site.across],
            now=self._running,
            anti_affinity=self._anti_affinity,
        )

    @cached_property
    def _running(self) -> dict[int, tuple[int, ...]]:
        """By option whose pods are somewhere now: where, see `PodMenus`."""
        runs, found = {job.id for job in self.instance.jobs if job.current is not None}, {}
        for chooser in [at for at, name in enumerate(self.program.choosers) if name in runs]:
            for row in range(*self.plain.offsets[chooser : chooser + 2].tolist()):
                entries = self.program.entries[self._entries[0][row] : self._entries[1][row]]
                nodes = [node for _, of, at, count in entries for node in self._now(of, at, count)]
                if max(nodes, default=-1) >= 0:
                    found[row] = tuple(nodes)
        return found

    def lying(self, choice: NDArray[np.int64]) -> dict[int, tuple[int, ...]]:
        """Return by option, of a choice whose nodes are known, where its pods are, see `PodMenus`."""
        site, found, known = self.program.site, {}, {}
        assert isinstance(site, BundledSite)
        for bundle, jobs in self._inside(choice).items():
            for job, own in zip(jobs, self._packing(bundle, jobs).known or (), strict=False):
                known[job, bundle] = iter([self._nodes[bundle][at] for at in own])
        for job, row in enumerate(choice.tolist()):
            nodes = list[int]()
            for _, _, bundle, count in self.program.entries[self._entries[0][row] : self._entries[1][row]]:
                there = known.get((job, bundle), iter(site.members[bundle].tolist()))
                nodes += islice(there if self._nodes[bundle] else cycle(there), count)
            if nodes:
                found[row] = tuple(nodes)
        return found

    def _now(self, of: int, bundle: int, count: int) -> list[int]:
        """Return the nodes of a bundle where so many pods of a class are now, -1 for those nowhere."""
        one, site = self.program.classes[of], self.program.site
        assert isinstance(site, BundledSite)
        on = {} if one.job.current is None else one.job.current.on.get(one.pods.name, {})
        here = [node for node in on if site.number.get(node) == bundle]
        there = [site.fine.number[node] for node in here for _ in range(on[node])][:count]
        return [*there, *[-1] * (count - len(there))]

    @cached_property
    def _sharing(self) -> list[int]:
        """The rows that count the pods that share a place, and the limits of tenants."""
        counted = [*sharing_rows(self.program), *limiting_rows(self.program)]
        names = {one.name for one in counted} | {*self._limits}
        return [at for at, name in enumerate(self.plain.capacity_names) if name in names]

    def weighted(
        self, weights: NDArray[np.float64], prices: NDArray[np.float64]
    ) -> tuple[PlacementByBundle, NDArray[np.float64]]:
        """Return the same with a row of weights for every bundle, and multipliers by which it has that bound.

        Parameters
        ----------
        weights
            float64 [kinds] >= 0: what pods of every kind are worth.
        prices
            float64 [rows that count pods of one place] >= 0.
        """
        node, names = self.program.kinds.node, self.program.site.nodes
        rows, units = list[Row](), list[float]()
        for at in np.unique(node).tolist():
            own = weights[node == at]
            if (unit := float(own.max()) / MOST_WEIGHT) > 0.0:
                listed = np.rint(own / unit).astype(np.int64).tolist()
                rows.append(weights_row(self.program, names[at], listed))
                units.append(unit)
        other = copy(self)
        other.asked = self.asked.beside(rows)
        other.model = other.plain = self.plain.under(
            other.asked.table(), other.asked.rooms, other.asked.names
        )
        multipliers = np.zeros(other.model.num_capacities)
        multipliers[self._sharing] = prices
        multipliers[len(self.asked.names) :] = units
        return other, multipliers

    def placed_on(self, rows: NDArray[np.int64], nodes: Sequence[Sequence[int]]) -> NDArray[np.int64] | None:
        """Return the choice of options, -1 for none, whose pods are on given nodes, the rest filled up.

        ``None`` where a job must have something and has nothing, or pods do not fit there.
        """
        choice = self._chosen(rows, nodes)
        return None if choice is None else self._of_few_moves(self._filled(choice, np.flatnonzero(rows < 0)))

    @property
    def narrows(self) -> bool:
        """Whether pods are placed on less than nodes have, so that places keep their limits."""
        return isinstance(self.program.site, BundledSite) and bool(self.program.site.place_limits)

    @property
    def keeps(self) -> Callable[[NDArray[np.int64], Sequence[Sequence[int]]], bool] | None:
        """Whether options on given nodes keep the rules; ``None`` where there are none."""

        def kept(rows: NDArray[np.int64], nodes: Sequence[Sequence[int]]) -> bool:
            return self._of_few_moves(self._chosen(rows, nodes)) is not None

        return kept if self.instance.rules or self._limits else None

    def _chosen(self, rows: NDArray[np.int64], nodes: Sequence[Sequence[int]]) -> NDArray[np.int64] | None:
        """Return a choice of options, -1 for none, its nodes remembered; ``None`` if it breaks a row."""
        choice = np.where(rows < 0, self._waits, rows)
        if (choice < 0).any() or (self.plain.used(choice) > self.plain.capacities).any():
            return None
        self._remember(choice, nodes)
        return choice

    def _of_few_moves(self, choice: NDArray[np.int64] | None) -> NDArray[np.int64] | None:
        """Return a choice whose nodes are known if no more pods are moved than may be, else ``None``."""
        if choice is None or not self.instance.rules:
            return choice
        known = {name: one.known for name, one in self.packings(choice).items()}
        placed = {name: nodes for name, nodes in known.items() if nodes is not None}
        return choice if self.moves_few(choice, placed) else None

    def moves_few(self, choice: NDArray[np.int64], placed: Mapping[str, Sequence[Sequence[int]]]) -> bool:
        """Return whether a choice, placed as `plan_on` is given it, moves no more pods than may be."""
        limits = [rule.limit for rule in self.instance.rules if isinstance(rule, MaxMovesRule)]
        site = self.program.site
        if not limits or not isinstance(site, BundledSite):
            return True
        if placed.keys() != {site.nodes[bundle] for bundle in self._inside(choice)}:
            return False
        plan = self.plan_on(choice, placed)["placement"]
        return sum(Placed(self.instance, site.fine, plan).moved.values()) <= min(limits)

    def packings(self, choice: NDArray[np.int64]) -> dict[str, PodPacking]:
        """Return what a choice asks of the nodes of every bundle that has several."""
        names = self.program.site.nodes
        return {names[bundle]: self._packing(bundle, jobs) for bundle, jobs in self._inside(choice).items()}

    def _packing(self, bundle: int, jobs: _Jobs) -> PodPacking:
        pods = tuple(
            tuple(self._needs[of] for of, count in own for _ in range(count)) for own in jobs.values()
        )
        own, position = tuple(jobs.values()), self._position[bundle]
        known = self._known.get((bundle, tuple(jobs.items())))
        places = tuple(self._places(bundle, one) for one in own)
        now = tuple(
            tuple(position[node] for of, count in one for node in self._now(of, bundle, count)) for one in own
        )
        return PodPacking(self._rooms[bundle], tuple(jobs), pods, known, places, now, self._anti_affinity)

    def _places(self, bundle: int, pods: tuple[tuple[int, int], ...]) -> NDArray[np.int64] | None:
        """Return the place of every node of a bundle where pods must share one that bundles do not tell."""
        level = shared_level(self.program.classes[pods[0][0]].option) if pods else None
        if level not in self._across or sum(count for _, count in pods) < 2:
            return None
        return self._across[str(level)][bundle]

    @cached_property
    def _across(self) -> dict[str, list[NDArray[np.int64]]]:
        """By level that bundles are across, of every bundle the places of its nodes."""
        site = self.program.site
        if not isinstance(site, BundledSite):
            return {}
        return {level: [site.fine.place[level][own] for own in site.members] for level in site.across}

    def _inside(self, choice: NDArray[np.int64]) -> dict[int, _Jobs]:
        """Return what lies in every bundle of several nodes, choosers in ascending order."""
        found: dict[int, _Jobs] = {}
        for job, row in enumerate(choice.tolist()):
            for bundle, pods in self._placed(row).items():
                found.setdefault(bundle, {})[job] = pods
        return found

    def _placed(self, row: int) -> dict[int, tuple[tuple[int, int], ...]]:
        """Return class and number of the pods that an option has in bundles of several nodes."""
        found: dict[int, tuple[tuple[int, int], ...]] = {}
        if row >= 0 and self._nodes:
            for _, of, bundle, count in self.program.entries[self._entries[0][row] : self._entries[1][row]]:
                if self._nodes[bundle]:
                    found[bundle] = (*found.get(bundle, ()), (of, count))
        return found

    @cached_property
    def _entries(self) -> list[list[int]]:
        """Where what options place begins and ends among the program's entries."""
        columns = self.program.placed[0]
        return [np.searchsorted(columns, self.asked.columns, side).tolist() for side in _SIDES]

    def plan(self, choice: NDArray[np.int64]) -> Plan:
        """Return where the pods of a choice are, and those that stay as they are."""
        found, site = super().plan(choice), self.program.site
        kept = site.kept if isinstance(site, BundledSite) else ()
        now = ((job.id, job.current) for job in kept)
        placed = found["placement"] | {
            job: {"option": one.option, "on": {name: dict(on) for name, on in one.on.items() if on}}
            for job, one in now
            if one is not None
        }
        return {"placement": {job.id: placed[job.id] for job in self._all.jobs if job.id in placed}}

    def plan_on(self, choice: NDArray[np.int64], placed: Mapping[str, Sequence[Sequence[int]]]) -> Plan:
        """Return the plan of a choice with the nodes of every pod, given as in `packings`."""
        plan, site = self.plan(choice), self.program.site
        for bundle, jobs in self._inside(choice).items():
            assert isinstance(site, BundledSite)
            name, members = site.nodes[bundle], self._nodes[bundle]
            for own, nodes in zip(jobs.values(), placed[name], strict=True):
                each = iter(nodes)
                for of, count in own:
                    one = self.program.classes[of]
                    at = plan["placement"][one.job.id]["on"][one.pods.name]
                    at.pop(name, None)
                    for member in sorted(members[number] for number in islice(each, count)):
                        node = site.fine.nodes[member]
                        at[node] = at.get(node, 0) + 1
        return plan

    def choice(self, plan: Any) -> NDArray[np.int64] | None:
        """Return the choice of a plan as far as it fits, its nodes remembered; ``None`` if it is no plan."""
        found = super().choice(plan)
        if found is not None and self._nodes:
            with suppress(KeyError, TypeError):  # a plan whose numbers of pods are none
                self._remember(found, [self._nodes_in(plan, row) for row in found.tolist()])
        return found

    def _nodes_in(self, plan: Any, row: int) -> list[int]:
        """Return the nodes on which the pods of an option are in a plan."""
        site, found = self.program.site, list[int]()
        assert isinstance(site, BundledSite)
        for bundle, pods in self._placed(row).items():
            for of, count in pods:
                one = self.program.classes[of]
                on = plan["placement"][one.job.id]["on"].get(one.pods.name, {})
                here = [node for node in on if site.number.get(node) == bundle]
                found += [site.fine.number[node] for node in here for _ in range(on[node])][:count]
        return found

    def placed_near(self, choice: NDArray[np.int64], late: Callable[[], bool]) -> NDArray[np.int64] | None:
        """Return a choice close by that lies on the nodes; ``None`` if none was found.

        Of a bundle that is too full the jobs that best fit does not place are left out, then each of them
        gets the best of its options that keeps all rows and fits on what is left of the nodes.
        """
        found, inside = choice.copy(), self._inside(choice)
        for bundle, here in inside.items():
            if here and not self._fits(bundle, here):
                kept = self._left_out(bundle, {job: int(found[job]) for job in here})
                if kept is None:
                    return None
                for job, row in kept.items():
                    for other in self._placed(int(found[job])) if row != found[job] else ():
                        del inside[other][job]
                    found[job] = row
        inside = {bundle: jobs for bundle, jobs in inside.items() if jobs}
        room = self.plain.capacities - self.plain.used(found)
        if (room < 0).any():  # a rule wanted who was left out
            return None
        if not all(self._fits(bundle, jobs) for bundle, jobs in inside.items()):
            return None
        out = np.flatnonzero((found == self._waits) & (choice != self._waits))
        order = out[np.argsort(-self._worths[choice[out]], kind="stable")]
        return self._of_few_moves(self._filled(found, order, late))

    def _filled(
        self, choice: NDArray[np.int64], out: NDArray[np.int64], late: Callable[[], bool] = lambda: False
    ) -> NDArray[np.int64] | None:
        """Return a choice whose nodes are known with the best left for those who have nothing, in order."""
        found, inside = choice.copy(), self._inside(choice)
        room = self.plain.capacities - self.plain.used(found)
        filled = {bundle: _Filled(self._packing(bundle, jobs), jobs) for bundle, jobs in inside.items()}
        for job in out.tolist():
            if late():
                break
            row = self._best_left(filled, room, job, int(found[job]))
            room += self.plain.used(found[job : job + 1]) - self.plain.used(np.array([row]))
            found[job] = row
        for bundle, one in filled.items():
            here = dict(sorted(one.jobs.items()))
            self._known[bundle, tuple(here.items())] = tuple(one.lying[job] for job in here)
        return self._with_derived(found)

    def _with_derived(self, choice: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Return a choice with the choosers that follow from others set anew; ``None`` if it breaks a row."""
        starts, taken = self.program.starts, np.zeros(len(self.program.labels), dtype=np.int64)
        taken[self.asked.columns[choice]] = 1
        sizes = np.diff([*starts, len(self.program.labels)])
        found = choice.copy()
        for chooser, settle in self.program.settled.items():
            own = slice(starts[chooser], starts[chooser] + int(sizes[chooser]))
            taken[own] = 0
            column = starts[chooser] + settle(taken)
            taken[column] = 1
            at = int(np.searchsorted(self.asked.columns, column))
            if at == self.asked.columns.size or self.asked.columns[at] != column:
                return None
            found[chooser] = at
        return found if self.plain.fits(found) else None

    def _remember(self, choice: NDArray[np.int64], nodes: Sequence[Sequence[int]]) -> None:
        """Remember on which nodes the pods of every chooser are, where they fit there."""
        site = self.program.site
        assert isinstance(site, BundledSite)
        for bundle, jobs in self._inside(choice).items():
            at = self._position[bundle]
            lying = tuple(tuple(at[node] for node in nodes[job] if node in at) for job in jobs)
            if keeps_rooms(self._packing(bundle, jobs), lying):
                self._known[bundle, tuple(jobs.items())] = lying

    def _left_out(self, bundle: int, there: Mapping[int, int]) -> dict[int, int] | None:
        """Return the options of a bundle's jobs, those left out that best fit does not place."""
        packing = self._packing(bundle, {job: self._placed(row)[bundle] for job, row in there.items()})
        worths = [self._worths[there[job]] if self._waits[job] >= 0 else np.inf for job in packing.jobs]
        nodes = best_fit(packing, worths)
        if nodes is None:
            return None
        lying = {job: own for job, own in zip(packing.jobs, nodes, strict=True) if own is not None}
        if any(self._waits[job] < 0 for job in there.keys() - lying.keys()):
            return None
        now = {job: self._placed(there[job])[bundle] for job in lying}
        self._known[bundle, tuple(now.items())] = tuple(lying.values())
        return {job: row if job in lying else int(self._waits[job]) for job, row in there.items()}

    def _fits(self, bundle: int, jobs: _Jobs) -> bool:
        """Return whether best fit places what is to lie in a bundle, and remember where."""
        packing = self._packing(bundle, jobs)
        nodes = packing.known or best_fit(packing)
        if nodes is not None:
            self._known[bundle, tuple(jobs.items())] = tuple(own or () for own in nodes)
        return nodes is not None

    def _best_left(self, filled: dict[int, _Filled], room: NDArray[np.int64], job: int, now: int) -> int:
        """Return the best option of a job, that has nothing now, beside the others, and put it there."""
        model = self.plain
        own = np.arange(model.offsets[job], model.offsets[job + 1])
        own = own[self._worths[own] > self._worths[now]]
        own = own[model.used_within(own, room + model.used(np.array([now])))]
        rows: list[int] = own[np.argsort(-self._worths[own], kind="stable")].tolist()
        for row in rows:
            placed = self._placed(row)
            for bundle in placed.keys() - filled.keys():
                filled[bundle] = _Filled(self._packing(bundle, {}), {})
            if all(filled[at].puts(job, pods, self._packing(at, {job: pods})) for at, pods in placed.items()):
                return row
            for bundle in placed:
                filled[bundle].drops(job)
        return now

    @cached_property
    def _worths(self) -> NDArray[np.float64]:
        """What options are worth, more for better ones."""
        return self.plain.values if self.plain.sense == "maximize" else -self.plain.values

    @cached_property
    def _waits(self) -> NDArray[np.int64]:
        """int64 [choosers]: the option in which a job that is one chooser gets nothing, -1 for none."""
        row = {column: at for at, column in enumerate(self.asked.columns.tolist())}
        waits = {job: row.get(columns[0], -1) for job, columns in self.program.waiting.items() if columns}
        whole = self.program.whole
        found = [waits.get(name, -1) if name in whole else -1 for name in self.program.choosers]
        return np.array(found, dtype=np.int64)

    def bounded(self, gpu_type: str, weights: tuple[int, ...]) -> PlacementByBundle:
        """Return the same: weights of sizes alone say nothing of pods that need several resources."""
        return self

    def excluding(self, gpu_type: str, choice: NDArray[np.int64]) -> PlacementByBundle:
        """Return the same without what some choosers have placed in a bundle, or more of it, all at once."""
        bundle, model, other = self.program.site.nodes.index(gpu_type), self.model, copy(self)
        use = np.zeros(model.num_options, dtype=np.int64)
        jobs = self._inside(choice)[bundle]
        for job, own in jobs.items():
            for row in range(int(model.offsets[job]), int(model.offsets[job + 1])):
                here = dict(self._placed(row).get(bundle, ()))
                use[row] = all(here.get(of, 0) >= count for of, count in own)
        uses: Any = beside(model.matrix, [use])
        names = (*model.capacity_names, f"excluded choice {model.num_capacities}")
        other.model = model.under(uses, np.append(model.capacities, len(jobs) - 1), names)
        return other

    def provable(self) -> PlacementByBundle:
        """Return the same with the rows of the instance alone: a certificate names nothing else."""
        other = copy(self)
        other.model = self.plain
        return other


def _running_on(instance: PlacementInstance, site: BundledSite) -> NDArray[np.int64]:
    """Return int64 [nodes]: how many pods run there."""
    found = np.zeros(len(site.fine.nodes), dtype=np.int64)
    for job in instance.jobs:
        for on in () if job.current is None else job.current.on.values():
            for node, count in on.items():
                if node in site.fine.number:
                    found[site.fine.number[node]] += count
    return found


class _Filled:
    """The pods of a bundle by job, their nodes, and what they leave of these."""

    def __init__(self, packing: PodPacking, jobs: _Jobs) -> None:
        known = packing.known or ()
        self.jobs, self.lying = dict(jobs), dict(zip(packing.jobs, known, strict=True))
        self._left = left_over(packing, known)
        self._weights = 1.0 / np.maximum(1, np.array(packing.rooms).sum(axis=0))
        self._needs: dict[int, tuple[tuple[int, ...], ...]] = {}

    def puts(self, job: int, pods: tuple[tuple[int, int], ...], alone: PodPacking) -> bool:
        """Put the pods of one more job beside the others, if that goes; say so."""
        place, now = alone.places[0], alone.now[0]
        nodes = beside_others(self._left, alone.pods[0], self._weights, place, now, alone.beside)
        if nodes is not None:
            self.jobs[job], self.lying[job], self._needs[job] = pods, tuple(nodes), alone.pods[0]
        return nodes is not None

    def drops(self, job: int) -> None:
        """Drop the pods of a job that was put here, if it was."""
        if job in self._needs:
            np.add.at(self._left.T, list(self.lying.pop(job)), np.array(self._needs.pop(job)))
            del self.jobs[job]
