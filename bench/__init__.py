"""What synthesis and the rehearsal cost, measured side by side in one run: quote the ratios, not the seconds."""
