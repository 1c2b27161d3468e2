"""Whether Slurm takes nodes back from pilots by itself, read from ``scontrol``'s own words."""

from __future__ import annotations

from collections.abc import Iterator

from apportion.live.doctor.finding import Finding, Verdict
from apportion.live.slurm.text import NotUnderstood, expand

__all__ = ["preemption", "settings_of"]

_ENDS = frozenset({"CANCEL", "REQUEUE"})
"""Modes that end a pilot; one that is only suspended keeps its memory and its rank's place."""


def settings_of(line: str) -> dict[str, str]:
    """Return the ``NAME=VALUE`` words of a line of ``scontrol --oneliner``."""
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


def preemption(configuration: str, partitions: str, partition: str) -> Iterator[Finding]:
    """Say whether the main queue gets nodes back from pilots in a partition.

    Parameters
    ----------
    configuration
        What ``scontrol show config`` prints.
    partitions
        What ``scontrol --oneliner show partition`` prints, all partitions.
    partition
        Where pilots would run; it exists.
    """
    overall = {
        name.strip(): value.strip()
        for name, sign, value in (line.partition("=") for line in configuration.splitlines())
        if sign
    }
    found = {fields.get("PartitionName", ""): fields for fields in map(settings_of, partitions.splitlines())}
    kind = overall.get("PreemptType", "(not told)")
    if kind == "preempt/qos":
        advice = "give pilots a QOS that the main queue's may preempt, and name it: --sbatch --qos=NAME"
        yield Finding("preemption", Verdict.UNKNOWN, "PreemptType=preempt/qos: a QOS decides", advice)
        return
    advice = "in slurm.conf: PreemptType=preempt/partition_prio and PreemptMode=CANCEL; scontrol reconfigure"
    yield Finding.of("preemption", kind == "preempt/partition_prio", f"PreemptType={kind}", advice)
    own = found.get(partition, {})
    mode = own.get("PreemptMode", "OFF").upper()
    told = f"partition {partition} has PreemptMode={mode}"
    advice = f"PartitionName={partition} ... PreemptMode=CANCEL: pilots are ended, not left or suspended"
    yield Finding.of("preemption mode", mode in _ENDS, told, advice)
    yield _priority(found, partition)


def _priority(found: dict[str, dict[str, str]], partition: str) -> Finding:
    nodes, tier = _nodes(found.get(partition, {})), _tier(found.get(partition, {}))
    beside = {
        name: _tier(fields) for name, fields in found.items() if name != partition and nodes & _nodes(fields)
    }
    wrong = sorted(name for name, other in beside.items() if other <= tier)
    if not beside:
        told = f"no other partition is over the nodes of {partition}: nobody would take them back"
    elif wrong:
        told = f"PriorityTier={tier}, and not more in {', '.join(wrong)} over the same nodes"
    else:
        told = f"PriorityTier={tier}, below {', '.join(sorted(beside))}"
    advice = f"give {partition} the lowest PriorityTier of all partitions over its nodes"
    return Finding.of("priority", not wrong, told, advice)


def _tier(fields: dict[str, str]) -> int:
    value = fields.get("PriorityTier", "1")
    return int(value) if value.isdecimal() else 1


def _nodes(fields: dict[str, str]) -> set[str]:
    try:
        return set(expand(fields.get("Nodes", "")))
    except NotUnderstood:
        return set()
