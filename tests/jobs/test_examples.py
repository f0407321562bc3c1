"""The examples, called as a user calls them, on nodes that fail."""

import json
import random
import re
from pathlib import Path

import pyarrow.parquet
import pytest
import torch

from fsdp_finetune import matthews_correlation
from ray_resume.data_order import FORMULA, DataOrder
from tests.jobs.support.paths import LIBRARY, RAY_JOBS
from tests.jobs.support.ray_nodes import Nodes
from tests.jobs.support.runs import JOB, Runs
from tests.support.waiting import REHEARSAL_PATIENCE_SECONDS, wait_until


@pytest.mark.sampled(1, of="examples")
def test_fsdp_finetuning_survives_a_lost_node_and_learns(nodes: Nodes, runs: Runs, draw: random.Random) -> None:
    job = runs.start("--epochs=4", "--every=4", script=RAY_JOBS / "fsdp_finetune.py")
    at = 4 * draw.randint(1, 5)
    wait_until(lambda: f"checkpoint of step {at} written" in job.output, f"checkpoint {at}", REHEARSAL_PATIENCE_SECONDS)
    nodes.kill(draw.randrange(2))
    nodes.add()
    assert job.wait() == 0, job.output
    first, resumed = job.resumed()
    assert first == 0
    assert resumed >= at
    done = json.loads((runs.storage / "fsdp-finetune" / "DONE.json").read_text())
    assert done["checkpoint"].startswith("000000064@0001.02")
    assert done["metrics"]["loss"] < 0.6, "guessing gives 0.69"


@pytest.mark.sampled(1, of="examples")
def test_batch_inference_classifies_with_what_ddp_trained(nodes: Nodes, runs: Runs) -> None:
    trained = runs.start("--epochs=8", "--learning-rate=0.02", "--workers=1", script=RAY_JOBS / "pytorch_ddp.py")
    assert trained.wait() == 0, trained.output
    arguments = (f"--trained={runs.storage / 'pytorch-ddp'}", "--samples=200", "--parts=4", "--workers=1")
    script = RAY_JOBS / "batch_inference.py"
    first = runs.start(*arguments, attempt=1, script=script)
    seen = lambda: "part 1 of 4 done" in first.output or first.job.poll() is not None  # noqa: E731
    wait_until(seen, "the first part", REHEARSAL_PATIENCE_SECONDS)
    assert first.job.poll() is None, first.output
    first.job.kill()
    first.wait()
    second = runs.start(*arguments, attempt=2, script=script)
    assert second.wait() == 0, second.output
    assert "part 1 of 4 done" not in second.output
    assert rows(runs.storage / "batch-inference") == list(range(200))
    third = runs.start(*arguments, attempt=3, script=script)
    assert third.wait() == 0
    assert "nothing is left to do" in third.output


@pytest.mark.sampled(1, of="examples")
def test_the_readmes_program_trains_its_run_once(runs: Runs, tmp_path: Path) -> None:
    [program] = re.findall(r"```python\n(.*?)```", (LIBRARY / "README.md").read_text(), re.DOTALL)
    assert program.count('"/tmp/runs"') == 1
    (script := tmp_path / "first.py").write_text(program.replace("/tmp/runs", str(runs.storage)))
    first = runs.start(script=script)
    assert first.wait() == 0, first.output
    assert "attempt 1 starts 2 workers" in first.output
    assert "checkpoint of step 40 written" in first.output
    again = runs.start(script=script)
    assert again.wait() == 0
    assert "nothing is left to do" in again.output


@pytest.mark.sampled(1, of="examples")
def test_ray_data_reads_a_workers_batches_in_their_order_from_any_step(nodes: Nodes, runs: Runs) -> None:
    """The recipe of docs/reference/job-library.md."""
    job = runs.start(script=JOB.with_name("ray_data_recipe.py"))
    assert job.wait() == 0, job.output
    read = next(json.loads(line) for line in job.output.splitlines() if line.startswith("[["))
    assert read == list(DataOrder(90, 12, 7, FORMULA).batches(range(3, 10), 0, 2, 4))


def rows(run: Path) -> list[int]:
    """Return the ids of all rows in the records of the parts."""
    records = [json.loads(record.read_text()) for record in (run / "parts").glob("*.json")]
    return sorted(
        one
        for record in records
        for file in (run / record["output"]).glob("*.parquet")
        for one in pyarrow.parquet.read_table(file)["id"].to_pylist()
    )


@pytest.mark.sampled(1, of="examples")
def test_a_local_hugging_face_model_is_fine_tuned_without_a_download(
    nodes: Nodes, runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, data = tmp_path / "model", tmp_path / "data.tsv"
    make_model(model)
    data.write_text("".join(f"{number % 2}\ta {'good' if number % 2 else 'bad'} sentence\n" for number in range(32)))
    files = (f"--model={model}", f"--data={data}", f"--validation={data}")
    job = runs.start(*files, "--epochs=1", "--batch=8", "--keep-best", script=RAY_JOBS / "fsdp_finetune.py")
    assert job.wait() == 0, job.output
    done = json.loads((runs.storage / "fsdp-finetune" / "DONE.json").read_text())
    assert -1 <= done["metrics"]["matthews_correlation"] <= 1


@pytest.mark.sampled(1, of="examples")
def test_lightning_finetuning_survives_a_lost_node(
    nodes: Nodes, runs: Runs, tmp_path: Path, draw: random.Random
) -> None:
    data = tmp_path / "data.tsv"
    data.write_text("".join(f"{number % 2}\ta {'good' if number % 2 else 'bad'} sentence\n" for number in range(64)))
    arguments = (f"--data={data}", f"--validation={data}", "--epochs=3", "--batch=8", "--every=4", "--keep-best")
    job = runs.start(*arguments, script=RAY_JOBS / "lightning_finetune.py")
    at = 4 * draw.randint(1, 4)
    seen = lambda: f"checkpoint of step {at} written" in job.output or job.job.poll() is not None  # noqa: E731
    wait_until(seen, f"checkpoint {at}", REHEARSAL_PATIENCE_SECONDS)
    nodes.kill(draw.randrange(2))
    nodes.add()
    assert job.wait() == 0, job.output
    first, resumed = job.resumed()
    assert first == 0
    assert resumed >= at
    done = json.loads((runs.storage / "lightning-finetune" / "DONE.json").read_text())
    assert done["checkpoint"].startswith("000000024@0001.02")
    assert -1 <= done["metrics"]["matthews_correlation"] <= 1


@pytest.mark.parametrize(
    ("confusion", "expected"),
    [
        ([[3, 0], [0, 2]], 1),
        ([[0, 3], [2, 0]], -1),
        ([[6, 1], [2, 3]], (6 * 3 - 1 * 2) / (8 * 7 * 4 * 5) ** 0.5),
        ([[4, 0], [2, 0]], 0),
        # As scikit-learn has it for three labels: true 0 0 1 1 2 2, found 0 1 1 1 2 0.
        ([[1, 1, 0], [0, 2, 0], [1, 0, 1]], 0.5222329678670935),
    ],
)
def test_matthews_correlation_of_two_and_more_labels(confusion: list[list[int]], expected: float) -> None:
    assert matthews_correlation(torch.tensor(confusion, dtype=torch.float32)) == pytest.approx(expected)


def make_model(folder: Path) -> None:
    """Write a BERT model of a few thousand weights, and its tokenizer."""
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "good", "bad", "sentence"]
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(words))
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    BertForSequenceClassification(BertConfig(vocab_size=len(words), **shape)).save_pretrained(folder)
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
