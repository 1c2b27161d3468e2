"""Training applications as measured: step times by placement and batch, progress and gradient statistics."""

from apportion.estimation.training.application import Application
from apportion.estimation.training.batch_split import BatchSplit, split_batch
from apportion.estimation.training.profiles import HOMOGENEOUS, read_applications
from apportion.estimation.training.step_times import StepTimes

__all__ = ["HOMOGENEOUS", "Application", "BatchSplit", "StepTimes", "read_applications", "split_batch"]
