"""``python -m benchmarks.gap_filling_event``: the preset of that name, see `benchmarks.presets`."""

from benchmarks.presets import main

if __name__ == "__main__":
    main("gap_filling_event")
