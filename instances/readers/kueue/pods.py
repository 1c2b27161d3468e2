"""What a pod asks for, and on which flavors it may run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from apportion.instances.readers.kueue.dump import Notes, listed, mapping, whole

__all__ = ["requests_of", "runs_on"]

_POD_FIELDS = (
    "containers",
    "initContainers",
    "overhead",
    "resources",
    "nodeSelector",
    "tolerations",
    "restartPolicy",
    "priorityClassName",
    "terminationGracePeriodSeconds",
    "dnsPolicy",
    "schedulerName",
    "securityContext",
    "serviceAccountName",
    "serviceAccount",
    "volumes",
    "automountServiceAccountToken",
    "enableServiceLinks",
)
"""What counts, and what has no part in who may run where."""


def requests_of(pod: Mapping[str, Any], name: str, notes: Notes) -> dict[str, int]:
    """Return what a pod asks for by resource, as the scheduler counts it: init containers run one by one."""
    notes.unused("Workload", name, "spec.podSets.template.spec", pod, _POD_FIELDS)
    total: dict[str, int] = {}
    first: dict[str, int] = {}
    for container in listed(pod, "initContainers"):
        own = _container(container, name, notes)
        if container.get("restartPolicy") == "Always":
            _raise(total, own, added=True)
            _raise(first, total, added=False)
        else:
            _raise(first, {key: total.get(key, 0) + use for key, use in own.items()}, added=False)
    for container in listed(pod, "containers"):
        _raise(total, _container(container, name, notes), added=True)
    _raise(total, first, added=False)
    for resource, given in mapping(pod, "resources", "requests").items():
        total[resource] = whole(given, resource, f"Workload {name} {resource}", notes)
    overhead = mapping(pod, "overhead")
    own = {
        key: whole(given, key, f"Workload {name} overhead {key}", notes) for key, given in overhead.items()
    }
    _raise(total, own, added=True)
    return {resource: use for resource, use in sorted(total.items()) if use > 0}


def runs_on(pod: Mapping[str, Any], flavor: Mapping[str, Any], keys: Iterable[str]) -> bool:
    """Tell whether a pod's node selector and tolerations let it run on a flavor.

    Parameters
    ----------
    pod
        The pod's spec.
    flavor
        The flavor's spec.
    keys
        Labels that flavors of the same group distinguish; others of the selector are the pod's own affair.
    """
    labels = mapping(flavor, "nodeLabels")
    selector = mapping(pod, "nodeSelector")
    if any(key in selector and labels.get(key) != selector[key] for key in keys):
        return False
    tolerations = [*listed(pod, "tolerations"), *listed(flavor, "tolerations")]
    return all(
        any(_tolerates(toleration, taint) for toleration in tolerations)
        for taint in listed(flavor, "nodeTaints")
        if taint.get("effect") in ("NoSchedule", "NoExecute")
    )


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    key, operator = toleration.get("key") or "", toleration.get("operator") or "Equal"
    if operator == "Exists":
        return key in ("", taint.get("key"))
    return key == taint.get("key") and (toleration.get("value") or "") == (taint.get("value") or "")


def _container(container: Mapping[str, Any], name: str, notes: Notes) -> dict[str, int]:
    given = {**mapping(container, "resources", "limits"), **mapping(container, "resources", "requests")}
    return {key: whole(value, key, f"Workload {name} {key}", notes) for key, value in given.items()}


def _raise(total: dict[str, int], by: Mapping[str, int], *, added: bool) -> None:
    for key, use in by.items():
        total[key] = total.get(key, 0) + use if added else max(total.get(key, 0), use)
