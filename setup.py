"""The compiled parts: every C file under ``solvers/`` is one extension module of the same name.

They use the limited API of Python 3.11, so that one wheel serves all versions from 3.11 on, and are
optional: where no compiler is found the package installs without them and searches by its uncompiled roads.
In place, for developers: ``python setup.py build_ext --inplace``. Every part carries the checksum of its
source, so that one older than the source beside it is noticed (`apportion.solvers.compiled`).
"""

import zlib
from pathlib import Path

from setuptools import Extension, setup

_ROOM = Path("src/apportion/solvers")  # through the committed link: where a source distribution has them too

setup(
    ext_modules=[
        Extension(
            ".".join(("apportion", *source.relative_to("src/apportion").with_suffix("").parts)),
            [str(source)],
            define_macros=[
                ("Py_LIMITED_API", "0x030B0000"),
                ("SOURCE_STAMP", f'"{zlib.crc32(source.read_bytes()):08x}"'),
            ],
            extra_compile_args=["-O3", "-std=c11"],
            py_limited_api=True,
            optional=True,
        )
        for source in sorted(_ROOM.glob("*/*.c"))
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
