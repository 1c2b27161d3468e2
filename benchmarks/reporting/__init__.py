"""From rows to what they say: measures, wins and losses, the page, drift between runs, the gate."""
