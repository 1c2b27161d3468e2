"""``python -m benchmarks.matching_orlib``: the preset of that name, see `benchmarks.presets`."""

from benchmarks.presets import main

if __name__ == "__main__":
    main("matching_orlib")
