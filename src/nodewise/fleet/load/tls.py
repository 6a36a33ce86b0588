"""Encrypted connections: whom the client trusts, how it identifies itself, and what went wrong."""

import ssl
from pathlib import Path

from nodewise.base.errors import RunError, SpecError
from nodewise.fleet.spec import Server


def context_of(server: Server, home: Path) -> ssl.SSLContext | None:
    """The certificates of a spec, from its folder; nothing if no address is encrypted."""
    if not any(url.startswith("https:") for url in server.urls):
        return None
    context = ssl.create_default_context()
    try:
        if server.ca:
            context.load_verify_locations(home / server.ca)
    except OSError as error:  # SSLError is one
        raise _unreadable("ca", home / server.ca, error) from None
    try:
        if server.certificate:
            key = home / server.key if server.key else None
            context.load_cert_chain(home / server.certificate, key, password=_no_password)
    except (OSError, ValueError) as error:
        raise _unreadable("certificate and key", home / server.certificate, error) from None
    return context


def explained(url: str, error: ssl.SSLError) -> RunError:
    """Why an encrypted connection to a server failed, and what to write in the spec."""
    if isinstance(error, ssl.SSLCertVerificationError):
        why = error.verify_message
        if "mismatch" in why or "not valid for" in why:
            return RunError(
                f"The certificate of {url} is for another name: {why}",
                "Write a name that it holds in the address of the server.",
            )
        return RunError(
            f"The certificate of {url} is not trusted: {why}.",
            'Write ca = "ca.pem" under [server]: the authority that signed it, or itself.',
        )
    reason = (error.reason or str(error)).lower().replace("_", " ")
    if "certificate required" in reason or "handshake failure" in reason:
        return RunError(
            f"{url} requires a client certificate:  {reason}.",
            'Write certificate = "client.pem" and key = "client.key" under [server].',
        )
    if "wrong version number" in reason or "record layer" in reason or "http request" in reason:
        return RunError(f"{url} does not speak TLS: {reason}.", "Write http:// in its address.")
    return RunError(f"No encrypted connection to {url}: {reason}.", "Correct its address.")


def _no_password() -> str:
    raise ValueError("the key has a password")


def _unreadable(field: str, path: Path, error: Exception) -> SpecError:
    reason = getattr(error, "strerror", None) or getattr(error, "reason", None) or str(error)
    return SpecError(
        f"server.{field}: cannot read {path}: {reason}.", "Name a PEM file without a password."
    )
