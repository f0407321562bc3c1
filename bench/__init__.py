"""The cost of synthesis and of the rehearsal, measured side by side in one run: quote the ratios, not the seconds.

`bench.walks` counts calls between files instead, which no busy machine changes.
"""
