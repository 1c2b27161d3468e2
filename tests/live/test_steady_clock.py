"""Leases are kept by a clock that nobody can set: an hour either way on the wall changes nothing."""

from __future__ import annotations

import pytest

from apportion.live.cluster import boot_id, continued, steady_s


class Machine:
    """A machine whose wall clock can be set and which can be booted anew."""

    def __init__(self) -> None:
        self.up_s, self.wall_s, self.boot = 50.0, 1_000_000.0, "first"

    def pass_by(self, seconds: float) -> None:
        self.up_s += seconds
        self.wall_s += seconds

    def clock(self, boot: str | None, ahead_s: float, newest_s: float = 0.0):  # type: ignore[no-untyped-def]
        return continued(boot, ahead_s, newest_s, lambda: self.wall_s, lambda: self.up_s, lambda: self.boot)


@pytest.mark.parametrize("jump_s", [3600.0, -3600.0])
def test_a_jump_of_the_wall_clock_changes_nothing_also_over_a_restart(jump_s: float) -> None:
    machine = Machine()
    clock, boot, ahead_s = machine.clock(None, 0.0)
    assert clock() == 1_000_000.0
    machine.wall_s += jump_s
    machine.pass_by(5.0)
    assert clock() == 1_000_005.0
    again, boot, ahead_s = machine.clock(boot, ahead_s)
    machine.pass_by(5.0)
    assert again() == clock() == 1_000_010.0


def test_after_another_boot_time_never_goes_back() -> None:
    machine = Machine()
    _, boot, ahead_s = machine.clock(None, 0.0)
    machine.boot, machine.up_s, machine.wall_s = "second", 1.0, 900_000.0
    clock, boot, _ = machine.clock(boot, ahead_s, newest_s=1_000_020.0)
    assert boot == "second" and clock() == 1_000_020.0
    machine.pass_by(2.0)
    assert clock() == 1_000_022.0


def test_the_real_clock_goes_forward() -> None:
    first = steady_s()
    assert steady_s() >= first
    assert boot_id() == boot_id()
