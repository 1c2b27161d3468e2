"""What ``sinfo`` and ``squeue`` print, read: JSON of any release that has it, or columns of text.

Slurm 22.05 writes ``nodes`` with one state word and a list of flags, and jobs with one state word; later
releases (``data_parser``) write ``sinfo``, groups of nodes alike, states as lists, and numbers as objects.
Nothing but the fields used here is looked at, so that what a release adds does no harm; a state that no list
names is an error.

The types of nodes that jobs tell apart: features and GPUs by their names, or several that count as one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from apportion.core import node_lists
from apportion.core.errors import ClusterUnreachable, InvalidOption
from apportion.live.cluster import PilotSeen, PilotState

__all__ = [
    "PREFIX",
    "NodeStates",
    "NodeTypes",
    "NotUnderstood",
    "expand",
    "idle",
    "nodes_of_json",
    "nodes_of_text",
    "pilots_of_json",
    "pilots_of_text",
    "sound",
    "type_of",
    "types_of",
]


NodeTypes = Mapping[str, frozenset[str]]
"""By the name of a type the features or GPU types of nodes that are of it, in the order of preference."""

_NAME = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


def types_of(words: Sequence[str]) -> dict[str, frozenset[str]]:
    """Return the types of words: ``NAME``, a feature of nodes, or ``NAME=ONE+ANOTHER``, which count as one.

    Raises
    ------
    InvalidOption
        If a word is neither, or a name is there twice.
    """
    types: dict[str, frozenset[str]] = {}
    for word in words:
        name, several, text = word.partition("=")
        members = text.split("+") if several else [name]
        wrong = [one for one in (name, *members) if not _NAME.match(one)]
        if wrong or name in types:
            why = f"{name!r} is there twice" if not wrong else f"{wrong[0]!r} is no name of a type"
            raise InvalidOption(f"types are NAME or NAME=ONE+ANOTHER, each once; in {word!r} {why}")
        types[name] = frozenset(members)
    return types


def type_of(types: NodeTypes, features: Collection[str], gpus: Collection[str] = ()) -> str:
    """Return the type of a node: the first that it is of, else that of its GPUs, if all are of one.

    Parameters
    ----------
    types
        As of `types_of`.
    features, gpus
        Its features, and the types of its GPUs as Slurm names them, empty for GPUs without one.
    """
    sorts = set(gpus)
    for name, members in types.items():
        if not members.isdisjoint(features) or (sorts and sorts <= members):
            return name
    return sorts.pop() if len(sorts) == 1 else ""


NodeStates = dict[str, frozenset[str]]
"""Every node of a partition with the words of its state, base state and flags, in capitals."""

_HARMLESS = frozenset({"IDLE", "DYNAMIC_NORM", "CLOUD"})
_ANSWERING = frozenset(
    {"IDLE", "ALLOCATED", "MIXED", "COMPLETING", "DRAINING", "DRAINED", "RESERVED", "PLANNED"}
)
_SILENT = frozenset(
    {
        *("DOWN", "ERROR", "FAIL", "FAILING", "FUTURE", "NOT_RESPONDING", "NO_RESPOND", "UNKNOWN", "INVAL"),
        *("POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN", "POWER_UP", "REBOOT_ISSUED"),
    }
)
_STATES = {
    **dict.fromkeys(
        (
            "PENDING",
            "CONFIGURING",
            "REQUEUED",
            "REQUEUE_FED",
            "REQUEUE_HOLD",
            "SPECIAL_EXIT",
            "RESV_DEL_HOLD",
        ),
        PilotState.PENDING,
    ),
    **dict.fromkeys(("RUNNING", "SUSPENDED", "RESIZING"), PilotState.RUNNING),
    **dict.fromkeys(("COMPLETING", "SIGNALING", "STAGE_OUT", "STOPPED"), PilotState.ENDING),
    **dict.fromkeys(
        (
            *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "LAUNCH_FAILED"),
            *("OUT_OF_MEMORY", "PREEMPTED", "RECONFIG_FAIL", "REVOKED", "TIMEOUT"),
        ),
        PilotState.ENDED,
    ),
    "NODE_FAIL": PilotState.LOST,
}
_FLAGS = frozenset({"POWER_UP_NODE", "EXPEDITING", "UPDATE_DB"})
PREFIX = "apportion-"


class NotUnderstood(Exception):
    """What a command printed is not of a layout known here."""


def idle(states: NodeStates) -> tuple[str, ...]:
    """Return the nodes that are idle and nothing else."""
    return _ordered(node for node, words in states.items() if "IDLE" in words and words <= _HARMLESS)


def sound(states: NodeStates) -> frozenset[str]:
    """Return the nodes whose daemon answers the scheduler."""
    return frozenset(node for node, words in states.items() if words & _ANSWERING and not words & _SILENT)


def nodes_of_text(text: str) -> NodeStates:
    """Return the nodes of lines ``NODE|STATE``, the sign behind a state (``idle*``) as a word of its own."""
    found: NodeStates = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        node, bar, state = line.strip().partition("|")
        if not node or not bar or "|" in state:
            raise NotUnderstood("sinfo printed lines that are not NODE|STATE")
        signs = [sign for sign in state if not (sign.isalnum() or sign == "_")]
        base = state.rstrip("".join(signs)) if signs else state
        words = {base.upper(), *(node_lists.STATE_SIGNS.get(sign, f"SIGN {sign}") for sign in signs)}
        found[node] = found.get(node, frozenset()) | words
    return found


def nodes_of_json(raw: bytes, partition: str) -> NodeStates:
    """Return the nodes of a partition."""
    answer = _object(raw, "sinfo")
    found: NodeStates = {}
    if isinstance(answer.get("nodes"), list):
        for node in _objects(answer["nodes"], "nodes"):
            if partition in _words(node.get("partitions")):
                words = [*_words(node.get("state")), *_words(node.get("state_flags"))]
                found[str(node["name"])] = frozenset(word.upper() for word in words)
        return found
    if isinstance(answer.get("sinfo"), list):
        for group in _objects(answer["sinfo"], "sinfo"):
            state, nodes = group.get("node"), group.get("nodes")
            if _name(group.get("partition")) != partition or not isinstance(state, dict):
                continue
            if isinstance(nodes, dict):
                group_words = frozenset(word.upper() for word in _words(state.get("state")))
                for name in (name for piece in _words(nodes.get("nodes")) for name in expand(piece)):
                    found[name] = found.get(name, frozenset()) | group_words
        return found
    raise NotUnderstood("sinfo --json printed neither nodes nor sinfo")


def pilots_of_text(text: str, instance: str) -> tuple[PilotSeen, ...]:
    """Return the pilots of lines ``ID|STATE|NODES|WANTED NODES|NAME``."""
    found = []
    for line in text.splitlines():
        columns = line.strip().split("|", 4)
        if columns == [""]:
            continue
        if len(columns) != 5:
            raise NotUnderstood("squeue printed lines that are not ID|STATE|NODES|WANTED|NAME")
        handle, state, nodes, wanted, name = columns
        found.append(_pilot(handle, [state], nodes or wanted, name, instance))
    return tuple(pilot for pilot in found if pilot is not None)


def pilots_of_json(raw: bytes, instance: str) -> tuple[PilotSeen, ...]:
    """Return the pilots of an instance."""
    answer = _object(raw, "squeue")
    if not isinstance(answer.get("jobs"), list):
        raise NotUnderstood("squeue --json printed no jobs")
    found = []
    for job in _objects(answer["jobs"], "jobs"):
        name = job.get("name")
        if not isinstance(name, str) or not name.startswith(PREFIX):
            continue
        nodes = [*_words(job.get("nodes")), *_words(job.get("required_nodes"))]
        state = _words(job.get("job_state"))
        found.append(_pilot(str(_number(job.get("job_id"))), state, (nodes or [""])[0], name, instance))
    return tuple(pilot for pilot in found if pilot is not None)


def expand(nodes: str) -> list[str]:
    """Return the names of a list such as ``n[1-3,07],m2``; `NotUnderstood` where it is none."""
    try:
        return node_lists.expand(nodes)
    except node_lists.NoNodeList as error:
        raise NotUnderstood(str(error)) from None


def _pilot(handle: str, state: list[str], nodes: str, name: str, instance: str) -> PilotSeen | None:
    pilot = name.removeprefix(PREFIX)
    if pilot == name or pilot.rpartition("-")[0] != instance:
        return None
    words = [word.upper() for word in state if word.upper() not in _FLAGS]
    unknown = [word for word in words if word not in _STATES]
    if unknown or not words:
        raise ClusterUnreachable(f"Slurm says that job {handle} is {', '.join(unknown) or 'in no state'}")
    seen = [_STATES[word] for word in words]
    state_seen = PilotState.ENDING if PilotState.ENDING in seen else seen[0]
    names = expand(nodes) if nodes and nodes not in ("(null)", "None assigned") else []
    return PilotSeen(pilot, handle, names[0] if names else None, state_seen)


def _ordered(names: Iterable[str]) -> tuple[str, ...]:
    """Return names without repetitions, n2 before n10."""
    return tuple(
        sorted(
            set(names),
            key=lambda name: [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)],
        )
    )


def _object(raw: bytes, command: str) -> dict[str, Any]:
    try:
        answer = msgspec.json.decode(raw)
    except msgspec.DecodeError as error:
        raise NotUnderstood(f"{command} --json printed no JSON: {error}") from None
    if not isinstance(answer, dict):
        raise NotUnderstood(f"{command} --json printed no object")
    if answer.get("errors"):  # 22.05 says so, lists nothing, and ends with exit code 0
        raise ClusterUnreachable(f"{command}: {_errors(answer['errors'])}")
    return answer


def _errors(errors: Any) -> str:
    said = [
        str(error.get(key))
        for error in (errors if isinstance(errors, list) else [])
        if isinstance(error, dict)
        for key in ("description", "error")
        if error.get(key)
    ]
    return ", ".join(said)[:500] or "errors without a description"


def _objects(items: list[Any], what: str) -> list[dict[str, Any]]:
    if not all(isinstance(item, dict) for item in items):
        raise NotUnderstood(f"{what} holds something that is no object")
    return items


def _words(value: Any) -> list[str]:
    """Return one word, or a list of words, as a list."""
    if isinstance(value, str):
        return [value] if value else []
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return value
    return []


def _name(value: Any) -> str | None:
    named = value.get("name") if isinstance(value, dict) else value
    return named if isinstance(named, str) else None


def _number(value: Any) -> int:
    """Return a number, or that of ``{"set": true, "number": 5}``."""
    plain = value.get("number") if isinstance(value, dict) else value
    if isinstance(plain, bool) or not isinstance(plain, int):
        raise NotUnderstood(f"a job's id is {value!r}")
    return plain
