"""``python -m benchmarks.gavel_makespan``: the preset of that name, see `benchmarks.presets`."""

from benchmarks.presets import main

if __name__ == "__main__":
    main("gavel_makespan")
