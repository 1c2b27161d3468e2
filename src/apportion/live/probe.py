"""What a node says of itself.

It is sent there as text and run by the node's own interpreter: nothing but the standard library, and nothing
that an old Python cannot read.
"""

import json
import os
import socket
import sys
import time


def shared_folder(folder: str, seal: "dict[str, str]") -> "list[str] | None":
    """Read what was left, write, link and rename; return the first step that fails, and why."""
    step = "read"
    try:
        with open(os.path.join(folder, seal["file"])) as left:  # noqa: PTH118, PTH123
            if left.read() != seal["text"]:
                return ["read", "holds something else: this is another folder"]
        own = os.path.join(folder, seal["back"])  # noqa: PTH118
        step = "write"
        with open(own + ".new", "w") as file:  # noqa: PTH123
            file.write(seal["text"])
            file.flush()
            os.fsync(file.fileno())
        step = "link"
        os.link(own + ".new", own + ".link")
        os.unlink(own + ".link")  # noqa: PTH108
        step = "rename"
        os.rename(own + ".new", own)  # noqa: PTH104
    except (OSError, ValueError) as error:
        return [step, str(error)]
    return None


def reach(host: str, port: int, text: str) -> "str | None":
    """Connect as an agent would; return why that fails."""
    try:
        connection = socket.create_connection((host, port), timeout=10.0)
        connection.sendall(text.encode())
        connection.close()
    except OSError as error:
        return str(error)
    return None


def package() -> "tuple[str | None, str | None]":
    """Return the version of the package here, and why there is none."""
    try:
        from apportion.core import __version__
    except Exception as error:
        return None, type(error).__name__ + ": " + str(error)
    return __version__, None


def main() -> None:
    """Print one JSON object."""
    asked = json.loads(sys.argv[1])
    said = {
        "marker": asked["seal"]["text"],
        "time": time.time(),
        "python": ".".join(map(str, sys.version_info[:3])),
    }
    if asked["host"] is not None:
        said["reached"] = reach(asked["host"], asked["port"], asked["seal"]["text"])
    if asked["shared"] is not None:
        said["shared"] = shared_folder(asked["shared"], asked["seal"])
    said["package"], said["missing"] = package()
    print(json.dumps(said))


if __name__ == "__main__":
    main()
