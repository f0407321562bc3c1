"""What only GPUs can show, on all GPUs of this machine: `make test-gpu`.

NCCL, CUDA's own generators, bf16 and the parts of distributed checkpoints, with one worker and with one on each GPU;
and the examples on real Ray, which lose the node of a GPU.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest
import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from ray_resume.checkpoint_store import CheckpointStore
from ray_resume.storage import open_storage
from tests.jobs.support import with_switches
from tests.jobs.support.ray_nodes import Nodes
from tests.jobs.support.runs import Runs
from tests.jobs.support.tiny_llama import LENGTH, make_model, make_text
from tests.jobs.support.together import together
from tests.jobs.support.trainings import TRAININGS, WRAPPERS, resume
from tests.support.waiting import REHEARSAL_PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def gpus() -> int:
    """Return the number of GPUs; without one, these tests fail, because only `make test-gpu` selects them."""
    number = int(torch.cuda.device_count())
    assert number, "this machine has no GPU. Fix: run `make test-gpu` on a machine with one"
    return number


# docs/reference/job-library.md; the other switches of that page are in `with_switches`.
SWITCHES: Final = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple"}
LLM: Final = (
    *("llm_finetune", "--model={folder}/model", "--data={folder}/train.txt"),
    *(f"--length={LENGTH}", "--epochs=12"),
)
EXAMPLES: Final = {
    "DDP": ("pytorch_ddp", "--epochs=16"),
    "FSDP in bf16": ("fsdp_finetune", "--epochs=16"),
    "FSDP with parameters in the node's memory": ("fsdp_finetune", "--epochs=16", "--cpu-offload"),
    "Lightning": ("lightning_finetune", "--epochs=16"),
    "language model": (*LLM, "--activation-checkpointing"),
    "language model under FSDP 1": (*LLM, "--fsdp=1"),
    "adapters of a language model": (*LLM, "--lora=4"),
}


@pytest.fixture(scope="module")
def nodes_with_gpus() -> Iterator[Nodes]:
    """Yield a head and two worker nodes of a GPU each: the same one, of which Ray sees two."""
    with pytest.MonkeyPatch.context() as patch, Nodes(gpus=1) as nodes:
        for name, value in SWITCHES.items():
            patch.setitem(os.environ, name, value)
        nodes.be(workers=1)
        yield nodes


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_on_a_lost_gpu_end_with_the_bits_of_an_undisturbed_run(
    nodes_with_gpus: Nodes, tmp_path: Path, example: str
) -> None:
    make_model(tmp_path / "model")
    make_text(tmp_path / "train.txt", 120)
    name, *words = (word.format(folder=tmp_path) for word in EXAMPLES[example])
    arguments = ("--gpus", "--workers=1", "--every=4", f"--name={name}", *words, name)
    undisturbed = end(nodes_with_gpus, tmp_path / "undisturbed", arguments, lost=False)
    resumed = end(nodes_with_gpus, tmp_path / "resumed", arguments, lost=True)
    assert undisturbed.keys() == resumed.keys()
    for weight, value in undisturbed.items():
        assert torch.equal(value, resumed[weight]), f"{weight} differs"


def end(nodes: Nodes, folder: Path, arguments: Sequence[str], *, lost: bool) -> dict[str, torch.Tensor]:
    """Run an example to its end, and return the weights of its last checkpoint; let it lose its node meanwhile."""
    folder.mkdir()
    nodes.be(workers=1)
    with Runs(folder, nodes) as runs:
        job = runs.start(*arguments, script=Path(with_switches.__file__))
        if lost:
            wait_until(
                lambda: "checkpoint of step 8 written" in job.output or job.job.poll() is not None,
                "checkpoint 8",
                REHEARSAL_PATIENCE_SECONDS,
            )
            nodes.kill(0)
            nodes.add()
        assert job.wait() == 0, job.output
        starts = job.resumed()
        assert len(starts) == 1 + lost, job.output
        assert starts[-1] >= 8 * lost
        store = CheckpointStore(open_storage(str(runs.storage), arguments[-1]))
        dcp_to_torch_save(runs.storage / arguments[-1] / store.committed()[-1].folder, folder / "end.pt")
    weights: dict[str, torch.Tensor] = torch.load(folder / "end.pt", weights_only=False)["model"]
    return weights


@pytest.mark.parametrize("alone", [True, False], ids=["one worker", "a worker on each GPU"])
@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("kind", TRAININGS)
def test_training_on_gpus_resumes_bit_by_bit(tmp_path: Path, gpus: int, kind: str, wrapper: str, alone: bool) -> None:
    workers = 1 if alone or wrapper == "plain" else gpus
    together(workers, resume, tmp_path / "meeting", tmp_path / "half", kind, wrapper, "cuda", backend="nccl")
