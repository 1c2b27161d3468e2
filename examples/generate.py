"""Write the instances of this folder again, byte for byte: ``python examples/generate.py [FOLDER]``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from apportion.instances.freezing import FreezingInstance
from apportion.instances.freezing.generator import generate as generate_freezing
from apportion.instances.gap_filling import GapFillingInstance
from apportion.instances.gap_filling.generator import generate
from apportion.instances.multiple_choice_knapsack import MultipleChoiceKnapsackInstance
from apportion.instances.multiple_choice_knapsack.generator import generate_sia, sia_option_ids, to_instance

Example = GapFillingInstance | MultipleChoiceKnapsackInstance | FreezingInstance

EXAMPLES: dict[str, Callable[[], Example]] = {
    "freezing_small.json": lambda: generate_freezing(
        5, 4, {"v100": 8}, depths=4, penalty_cap=0.08, name="freezing_small"
    ),
    "gap_filling_small.json": lambda: generate(
        13, jobs=6, nodes=24, max_nodes=16, decided_ago_s=900, name="gap_filling_small"
    ),
    "gap_filling_summit_like.json": lambda: generate(
        2021, jobs=30, nodes=500, name="gap_filling_summit_like"
    ),
    "sia_round.json": lambda: to_instance(generate_sia(2023), "sia_round", sia_option_ids(), decimals=4),
}
"""What every file is made by."""

_PLACED = ("schema_version", "name", "jobs")


def render(instance: Example) -> bytes:
    """Return the instance as JSON, one line per field and per job, leaving defaults out."""
    fields = _plain(instance)
    jobs = ",\n".join(f"  {_line(_plain(job))}" for job in instance.jobs)
    kind = str(instance.__struct_config__.tag)
    lines = [f'"kind": {_line(kind)}']
    for name in ("schema_version", "name", *(name for name in fields if name not in _PLACED)):
        lines.append(f'"{name}": {_line(fields[name])}')
    lines.append(f'"jobs": [\n{jobs}\n ]')
    return ("{" + ",\n ".join(lines) + "}\n").encode()


def _plain(struct: Any) -> dict[str, Any]:
    fields = msgspec.structs.fields(struct)
    values = {field.name: getattr(struct, field.name) for field in fields}
    kept = [
        field.name for field in fields if values[field.name] != field.default or field.name == "current_nodes"
    ]
    return {name: _builtins(values[name]) for name in kept}


def _builtins(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return _plain(value)
    if isinstance(value, tuple):
        return [_builtins(entry) for entry in value]
    return value


def _line(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()


def main() -> None:
    """Write all examples into the folder given, or this one."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent
    for name, make in EXAMPLES.items():
        (folder / name).write_bytes(render(make()))
        print(name)


if __name__ == "__main__":
    main()
