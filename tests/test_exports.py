"""What `apportion` offers: the types of every kind, imported only when they are used."""

from __future__ import annotations

import subprocess
import sys

import msgspec

import apportion
from apportion.instances import KINDS


def test_the_types_of_every_kind_are_offered() -> None:
    for kind in KINDS.values():
        todo: list[type] = [kind.type]
        while todo:
            struct = todo.pop()
            assert getattr(apportion, struct.__name__) is struct
            for field in msgspec.structs.fields(struct):
                todo.extend(_structs(msgspec.inspect.type_info(field.type)))


def test_every_name_leads_to_something_and_none_is_loaded_before() -> None:
    assert all(getattr(apportion, name) is not None for name in apportion.__all__)
    source = "import sys, apportion; print(*[name for name in sys.modules if name.startswith('apportion.')])"
    loaded = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == ["apportion.core"]


def _structs(told: msgspec.inspect.Type) -> list[type]:
    match told:
        case msgspec.inspect.StructType(cls=cls):
            return [cls]
        case msgspec.inspect.UnionType(types=types):
            return [struct for one in types for struct in _structs(one)]
        case msgspec.inspect.VarTupleType(item_type=item):
            return _structs(item)
        case msgspec.inspect.DictType(value_type=value):
            return _structs(value)
    return []
