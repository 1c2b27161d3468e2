"""Knapsacks larger than one machine: workers answer a price for their share of the jobs."""

from apportion.scale.decomposition.price_search import solve_sharded
from apportion.scale.decomposition.result import Pass, ShardedSolution
from apportion.scale.decomposition.sharding import MenuSource, Part, Shard, ShardedKnapsack
from apportion.scale.decomposition.sources import (
    ArrayMenus,
    GeneratedMenus,
    StoredMenus,
    check_sharded,
    store,
)

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
