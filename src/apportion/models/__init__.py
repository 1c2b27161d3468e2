"""Solver-neutral models: the structured multiple-choice knapsack and the linear model it lowers to."""

from apportion.models.linear import Block, LinearModel, LinearModelBuilder
from apportion.models.multiple_choice import MultipleChoiceKnapsack, Sense

__all__ = ["Block", "LinearModel", "LinearModelBuilder", "MultipleChoiceKnapsack", "Sense"]
