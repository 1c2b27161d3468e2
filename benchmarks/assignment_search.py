"""``python -m benchmarks.assignment_search``: the preset of that name, see `benchmarks.presets`."""

from benchmarks.presets import main

if __name__ == "__main__":
    main("assignment_search")
