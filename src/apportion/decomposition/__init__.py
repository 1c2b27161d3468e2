"""Knapsacks larger than one machine: workers answer a price for their share of the jobs."""

from apportion.decomposition.manifest import check_sharded
from apportion.decomposition.price_rounds import solve_sharded
from apportion.decomposition.result import Pass, ShardedSolution
from apportion.decomposition.sharding import MenuSource, Part, Shard, ShardedKnapsack
from apportion.decomposition.sources import ArrayMenus, GeneratedMenus, StoredMenus, store

__all__ = [
    "ArrayMenus",
    "GeneratedMenus",
    "MenuSource",
    "Part",
    "Pass",
    "Shard",
    "ShardedKnapsack",
    "ShardedSolution",
    "StoredMenus",
    "check_sharded",
    "solve_sharded",
    "store",
]
