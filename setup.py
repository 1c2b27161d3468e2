"""The packages and the compiled parts: folders at the top belong to the package all the same.

``solvers/``, ``formulations/`` and ``instances/`` are packages below ``apportion`` that are listed from
these folders, so that a checkout without symbolic links (a ZIP unpacked by Python, Windows) builds and
installs them too. The links below ``src/apportion`` serve editors and type checkers.

Every C file under ``solvers/`` is one extension module of the same name. They use the limited API of Python
3.11, so that one wheel serves all versions from 3.11 on, and are optional: where no compiler is found the
package installs without them and searches by its uncompiled roads. In place, for developers:
``python setup.py build_ext --inplace``. Every part carries the checksum of its source, so that one older than
the source beside it is noticed (`apportion.solvers.compiled`).
"""

import zlib
from pathlib import Path

from setuptools import Extension, find_namespace_packages, setup

_ROOMS = ("formulations", "instances", "solvers")


def _packages() -> list[str]:
    """Return every package, those of the folders at the top by the names they are imported by."""
    linked = [f"apportion.{room}" for room in _ROOMS]
    found = find_namespace_packages("src", include=["apportion*"])
    own = [name for name in found if not name.startswith(tuple(linked))]
    for room, name in zip(_ROOMS, linked, strict=True):
        own += [name, *(f"{name}.{below}" for below in find_namespace_packages(room))]
    return own


setup(
    packages=_packages(),
    package_dir={"": "src", **{f"apportion.{room}": room for room in _ROOMS}},
    ext_modules=[
        Extension(
            ".".join(("apportion", *source.with_suffix("").parts)),
            [source.as_posix()],
            define_macros=[
                ("Py_LIMITED_API", "0x030B0000"),
                ("SOURCE_STAMP", f'"{zlib.crc32(source.read_bytes()):08x}"'),
            ],
            extra_compile_args=["-O3", "-std=c11"],
            py_limited_api=True,
            optional=True,
        )
        for source in sorted(Path("solvers").glob("*/*.c"))
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
