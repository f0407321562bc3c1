"""What a run does with its time: lines, gauges and records while it trains, its goodput afterwards."""
