"""Tenants, quotas and fairness, for every kind of instance: schema, rules, the tree and what it means."""

from apportion.instances.tenants.schema import Fairness, FinishTime, Quota, Tenant
from apportion.instances.tenants.tree import Node, Tree, tree_of

__all__ = ["Fairness", "FinishTime", "Node", "Quota", "Tenant", "Tree", "tree_of"]
