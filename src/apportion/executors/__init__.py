"""Where many calls run: here, on processes that may die, or on a `dask.distributed` cluster."""

from apportion.executors.opening import open_executor
from apportion.executors.rows import Row, as_done, in_order
from apportion.executors.surviving import SurvivingPool, WorkerDied

__all__ = ["Row", "SurvivingPool", "WorkerDied", "as_done", "in_order", "open_executor"]
