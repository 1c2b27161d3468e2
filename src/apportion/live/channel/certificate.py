"""The controller's certificate: made at its start, kept while pilots that know its fingerprint still run.

Agents do not ask who signed it or until when it holds, so that no clock and no authority matters: they
compare its SHA-256 with the fingerprint that they were started with. Python's standard library cannot make
one; the ``openssl`` command does.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import ssl
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from apportion.live.errors import EncryptionMissing, StateUnwritable

__all__ = ["Certificate", "controllers_certificate"]

_FILE = "channel.pem"
_BEGIN = "-----BEGIN CERTIFICATE-----"
_TIMEOUT_S = 60.0
_CONFIGURATION = "[req]\ndistinguished_name = name\n[name]\n"
"""All that is asked of ``openssl``'s configuration, so that a site's own, or none, changes nothing."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate with its key.

    Attributes
    ----------
    path
        The file that holds both, readable by its user only.
    fingerprint
        SHA-256 of the certificate in hexadecimal digits: what agents know it by.
    """

    path: Path
    fingerprint: str


def controllers_certificate(folder: Path, keep: bool) -> Certificate:
    """Return the certificate of a state folder whose lock the caller holds.

    Parameters
    ----------
    folder
        The state folder.
    keep
        Whether pilots may run that know the one that is there. If not, or if it is missing or damaged, a new
        one is made; pilots that know another then never come back and end after their lease.

    Raises
    ------
    EncryptionMissing
        If a new one is needed and there is no ``openssl`` command, or it fails.
    StateUnwritable
        If the folder cannot be written.
    """
    path = folder / _FILE
    kept = _read(path) if keep else None
    if kept is None:
        try:
            _make(path)
        except OSError as error:
            raise StateUnwritable(f"the certificate {path} cannot be written: {error}") from None
        kept = _read(path)
    if kept is None:
        raise EncryptionMissing(f"openssl made a certificate that Python cannot read: {path}")
    return kept


def _read(path: Path) -> Certificate | None:
    """Return what a file holds, ``None`` if that is not a key with its certificate."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path)
        text = path.read_text("ascii")
        encoded = ssl.PEM_cert_to_DER_cert(text[text.index(_BEGIN) :].strip())
    except (OSError, ValueError):  # ssl.SSLError is an OSError
        return None
    return Certificate(path, hashlib.sha256(encoded).hexdigest())


def _make(path: Path) -> None:
    program = shutil.which("openssl")
    if program is None:
        raise EncryptionMissing(
            "no openssl command here, and the channel to the nodes is always encrypted: install it "
            "(Debian: apt install openssl) or put it on PATH"
        )
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".channel-") as made:
        key, certificate, both = (Path(made) / name for name in ("key", "certificate", "both"))
        (Path(made) / "configuration").write_text(_CONFIGURATION)
        command = [
            *(program, "req", "-x509", "-batch", "-nodes", "-sha256", "-days", "36500"),
            *("-config", str(Path(made) / "configuration"), "-subj", "/CN=apportion"),
            *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-keyout", str(key), "-out", str(certificate)),
        ]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise EncryptionMissing(f"openssl made no certificate in {_TIMEOUT_S:g} s") from None
        if done.returncode != 0:
            said = " ".join(done.stderr.decode(errors="replace").split())[-500:]
            raise EncryptionMissing(f"openssl made no certificate: {said or done.returncode}")
        file = os.open(both, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "wb") as written:
            written.write(key.read_bytes() + certificate.read_bytes())
            written.flush()
            os.fsync(written.fileno())
        both.replace(path)
