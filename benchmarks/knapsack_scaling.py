"""``python -m benchmarks.knapsack_scaling``: the preset of that name, see `benchmarks.presets`."""

from benchmarks.presets import main

if __name__ == "__main__":
    main("knapsack_scaling")
