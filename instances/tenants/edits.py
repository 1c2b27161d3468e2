"""Small changes to the tenants of an instance: weights, quotas, a new tenant, a limit a little wider."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from apportion.core.errors import InvalidInstance, did_you_mean
from apportion.instances.tenants.ledger import TenantLedger
from apportion.instances.tenants.schema import Quota, Tenant

__all__ = ["add_tenant", "change_tenant", "wider"]

_QUOTA = ("guarantee", "borrowing_limit", "lending_limit")


def add_tenant(instance: Any, tenant: Tenant) -> Any:
    """Return the instance with one more tenant.

    Raises
    ------
    InvalidInstance
        If its id is taken, its parent is not there, or its guarantee cannot be kept beside the others.
    """
    known = () if instance.tenants is UNSET else instance.tenants
    return replace(instance, tenants=(*known, tenant))


def change_tenant(instance: Any, tenant: str, changes: Mapping[str, float | int | None]) -> Any:
    """Return the instance with a tenant changed.

    Parameters
    ----------
    instance
        The instance.
    tenant
        The tenant's id.
    changes
        ``weight``, ``priority``, or ``CAPACITY.guarantee``, ``CAPACITY.borrowing_limit`` and
        ``CAPACITY.lending_limit``, to their new values; ``None`` for no limit.

    Raises
    ------
    InvalidInstance
        If there is no such tenant or field, or the instance is not valid afterwards.
    """
    known = {} if instance.tenants is UNSET else {one.id: one for one in instance.tenants}
    if tenant not in known:
        said = f"there is no tenant {tenant!r}{did_you_mean(tenant, known)}"
        raise InvalidInstance.at("$.tenants", said)
    changed = known[tenant]
    for name, value in changes.items():
        capacity, _, field = name.rpartition(".")
        fields: Any = {field: value}
        if not capacity and field in ("weight", "priority"):
            changed = replace(changed, **fields)
        elif capacity and field in _QUOTA:
            quota = replace(changed.quotas.get(capacity, Quota()), **fields)
            changed = replace(changed, quotas={**changed.quotas, capacity: quota})
        else:
            said = (
                f"weight, priority and CAPACITY.guarantee, .borrowing_limit or .lending_limit, not {name!r}"
            )
            raise InvalidInstance.at("$.tenants", f"what can be changed of a tenant is {said}")
    return replace(instance, tenants=tuple(changed if one.id == tenant else one for one in instance.tenants))


def wider(instance: Any, ledger: TenantLedger, limit: str, amount: int) -> Any | None:
    """Return the instance with one limit of the ledger wider; ``None`` for one that is no single field."""
    for row in ledger.rows:
        if row.name == limit and (tenant := row.borrower) is not None:
            quota = ledger.tree.nodes[tenant].tenant.quotas[row.capacity]
            more = (quota.borrowing_limit or 0) + amount
            return change_tenant(instance, tenant, {f"{row.capacity}.borrowing_limit": more})
    for name, floor in ledger.fairness.floors.items():
        if ledger.floor_names.get(name) == limit:
            floors = {**ledger.fairness.floors, name: max(0, floor - amount)}
            return replace(instance, fairness=replace(instance.fairness, floors=floors))
    return None
