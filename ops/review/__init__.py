"""The verdict on a pull request: what it does to training, data and the bill, for `ops review` and `ops gate`."""
