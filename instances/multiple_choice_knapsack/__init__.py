"""The multiple-choice knapsack as an instance kind."""

from apportion.instances.multiple_choice_knapsack.schema import (
    KnapsackGoal,
    KnapsackJob,
    KnapsackOption,
    MultipleChoiceKnapsackInstance,
)

__all__ = ["KnapsackGoal", "KnapsackJob", "KnapsackOption", "MultipleChoiceKnapsackInstance"]
