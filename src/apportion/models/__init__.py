"""Solver-neutral models: the structured multiple-choice knapsack and the linear model it lowers to."""

from apportion.models.builder import LinearModelBuilder
from apportion.models.linear import Block, LinearModel
from apportion.models.multiple_choice import MultipleChoiceKnapsack, Sense

__all__ = ["Block", "LinearModel", "LinearModelBuilder", "MultipleChoiceKnapsack", "Sense"]
