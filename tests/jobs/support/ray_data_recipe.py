"""Reads the samples of a run's steps 3 to 9 with Ray Data, as docs/reference/job-library.md shows, and prints them."""

import json

import ray

from ray_resume.data_order import FORMULA, DataOrder


def main() -> None:
    order = DataOrder(90, 12, seed=7, version=FORMULA)
    batches = order.batches(range(3, 10), 0, 2, 4)
    ray.init(logging_level="ERROR")
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    rows = ray.data.range(len(batches)).map(lambda row: {"samples": batches[row["id"]]})
    print(json.dumps([[int(one) for one in row["samples"]] for row in rows.iter_rows()]), flush=True)


if __name__ == "__main__":
    main()
