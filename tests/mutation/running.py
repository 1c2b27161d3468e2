"""Run the tests of a module against its mutants: collected once, then one forked process a mutant."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import resource
import signal
import types
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from tests.mutation.mutants import Mutant, mutants

__all__ = ["Tried", "tried"]

_CPU_S = 30


@dataclass(slots=True)
class Tried:
    """What became of a module's mutants.

    Attributes
    ----------
    total
        How many there are.
    looked_at
        How many were run.
    survivors
        Those that no test noticed, as ``line: change``.
    failed_unchanged
        A test that fails without any change: then nothing is said.
    """

    total: int = 0
    looked_at: int = 0
    survivors: list[str] = field(default_factory=list)
    failed_unchanged: bool = False


def tried(module: str, tests: Sequence[str], most: int, seed: int, again: Collection[str] = ()) -> Tried:
    """Run at most so many mutants of a module, drawn by the seed; or only those that survived before."""
    result = Tried()
    target = importlib.import_module(module)
    all_mutants = list(mutants(inspect.getsource(target)))
    result.total = len(all_mutants)
    chosen = sorted(Random(seed).sample(range(len(all_mutants)), min(most, len(all_mutants))))
    if again:
        chosen = [k for k, one in enumerate(all_mutants) if one.change in again]
    plugin = _Forking(target, [all_mutants[k] for k in chosen], result)
    pytest.main(["-q", "-p", "no:cacheprovider", "-n", "0", *tests], plugins=[plugin])
    return result


class _Forking:
    """Instead of the usual loop over tests: for every mutant a child that runs them until one fails."""

    def __init__(self, target: types.ModuleType, chosen: Sequence[Mutant], result: Tried) -> None:
        self._target, self._chosen, self._result = target, chosen, result

    def pytest_configure(self) -> None:
        """Let every run draw the same few examples."""
        from hypothesis import HealthCheck, settings

        unhurried = list(HealthCheck)
        settings.register_profile(
            "mutation", max_examples=20, deadline=None, derandomize=True, suppress_health_check=unhurried
        )
        settings.load_profile("mutation")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the mutants; the test that killed the last one comes first for the next."""
        items = list(session.items)
        if not items or self._killed_by(items, None) is not None:
            self._result.failed_unchanged = True
            return True
        for mutant in self._chosen:
            self._result.looked_at += 1
            killer = self._killed_by(items, mutant)
            if killer is None:
                self._result.survivors.append(f"{mutant.line}: {mutant.change}")
            else:
                items.insert(0, items.pop(killer))
        return True

    def _killed_by(self, items: list[pytest.Item], mutant: Mutant | None) -> int | None:
        """Return the position of the test that failed, ``None`` if all passed; 0 for a child that died."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            _become_quiet()
            try:
                if mutant is not None:
                    _put_in_place(self._target, mutant.tree)
                failed = next((k for k, item in enumerate(items) if _fails(item)), None)
            except BaseException:
                failed = 0
            os.write(write, b"" if failed is None else str(failed).encode())
            os._exit(0 if failed is None else 1)
        os.close(write)
        with os.fdopen(read) as pipe:
            told = pipe.read()
        _, status = os.waitpid(child, 0)
        if status == 0:
            return None
        return int(told or 0)


def _become_quiet() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
    signal.alarm(10 * _CPU_S)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)


def _fails(item: pytest.Item) -> bool:
    """Run one test, with its fixtures."""
    from _pytest.runner import runtestprotocol

    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    return any(report.failed for report in runtestprotocol(item, log=False))


def _put_in_place(target: types.ModuleType, tree: ast.Module) -> None:
    """Change the module that is loaded: its constants, and the code of its functions wherever held."""
    before = dict(vars(target))
    exec(compile(tree, str(target.__file__), "exec"), vars(target))
    for name, old in before.items():
        new = vars(target)[name]
        if getattr(old, "__module__", None) == target.__name__:
            _changed(old, new)
            setattr(target, name, old)


def _changed(old: Any, new: Any) -> None:
    if isinstance(old, types.FunctionType) and isinstance(new, types.FunctionType):
        old.__code__, old.__defaults__, old.__kwdefaults__ = (
            new.__code__,
            new.__defaults__,
            new.__kwdefaults__,
        )
    elif isinstance(old, type) and isinstance(new, type):
        for name, part in vars(new).items():
            _changed(vars(old).get(name), part)
    elif type(old) is type(new):
        for function in ("fget", "__func__", "func", "__wrapped__"):  # a property, a method, something cached
            if hasattr(new, function):
                _changed(getattr(old, function), getattr(new, function))
        if hasattr(old, "cache_clear"):
            old.cache_clear()
