"""Fine-tuning of a language model that is interrupted, and the export of its result."""

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from peft import PeftModel
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from transformers import AutoModelForCausalLM, AutoTokenizer

import llm_export
import llm_finetune
from llm_model import Memory
from ray_resume import InvalidInputError
from ray_resume.checkpoint_store import CheckpointStore, Saved
from ray_resume.storage import open_storage
from tests.jobs.support.finetuning import DOCUMENTS, EVERY, finetune, settings
from tests.jobs.support.paths import RAY_JOBS
from tests.jobs.support.ray_nodes import Nodes
from tests.jobs.support.runs import Runs
from tests.jobs.support.tiny_llama import LENGTH, make_model, make_text
from tests.jobs.support.together import together
from tests.support.waiting import REHEARSAL_PATIENCE_SECONDS, wait_until

RANK: Final = 4
"""The rank of the adapters."""
EPOCHS: Final = 5
"""Of the training that loses a node: long enough to lose it before the end."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the model and two texts."""
    folder = tmp_path_factory.mktemp("llm")
    make_model(folder / "model")
    make_text(folder / "train.txt", DOCUMENTS)
    make_text(folder / "valid.txt", 5)
    return folder


@pytest.fixture(scope="module")
def trained(folder: Path) -> Callable[..., Path]:
    """Return a function that fine-tunes once for each set of arguments, and returns the run's folder."""

    @cache
    def run(fsdp: int, lora: int, epochs: int, lost_at: int | None) -> Path:
        storage = folder / f"fsdp{fsdp}-lora{lora}-epochs{epochs}-lost{lost_at}"
        memory = Memory(2, fsdp, activation_checkpointing=True)
        meeting = storage.with_suffix(".meeting")
        together(2, finetune, meeting, storage, memory, settings(folder, lora, epochs), lost_at)
        return storage / "job"

    return lambda fsdp, lora=0, epochs=1, lost_at=None: run(fsdp, lora, epochs, lost_at)


def state(run: Path, saved: Saved | None = None) -> dict[str, Any]:
    """Return all that the last checkpoint of a run holds, with the parts put together."""
    saved = saved or CheckpointStore(open_storage(str(run.parent), run.name)).committed()[-1]
    file = run / f"{saved.name}.pt"
    dcp_to_torch_save(run / saved.folder, file)
    extra = torch.load(run / saved.folder / "extra.pt", weights_only=False)
    return {**torch.load(file, weights_only=False), "extra": extra, "step": saved.step}


def assert_equal(one: Any, other: Any, where: str = "") -> None:
    """Compare nested states bit by bit."""
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key in one:
            assert_equal(one[key], other[key], f"{where} {key}")
    elif isinstance(one, list):
        assert len(one) == len(other), where
        for number, pair in enumerate(zip(one, other, strict=True)):
            assert_equal(*pair, f"{where} {number}")
    else:
        same = torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other
        assert same, f"{where}: {one} {other}"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("lora", [0, RANK])
@pytest.mark.parametrize("fsdp", [1, 2])
def test_interrupted_finetuning_ends_with_the_same_bits(trained: Callable[..., Path], fsdp: int, lora: int) -> None:
    undisturbed = state(trained(fsdp, lora=lora))
    assert undisturbed["step"] > 2 * EVERY
    assert undisturbed["extra"]["scheduler"]["last_epoch"] == undisturbed["step"]
    assert_equal(undisturbed, state(trained(fsdp, lora=lora, lost_at=EVERY + 1)))


@pytest.mark.sampled(1, of="examples")
def test_finetuning_survives_a_lost_node_with_the_bits_of_one_without_ray(
    nodes: Nodes, runs: Runs, folder: Path, trained: Callable[..., Path]
) -> None:
    options = {**settings(folder, 0, EPOCHS), "micro_batch": 2, "every": 2 * EVERY}
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in options.items() if name != "lora"]
    job = runs.start(*arguments, "--activation-checkpointing", "--keep-best", script=RAY_JOBS / "llm_finetune.py")
    wait_until(
        lambda: f"checkpoint of step {2 * EVERY} written" in job.output, "a checkpoint", REHEARSAL_PATIENCE_SECONDS
    )
    nodes.kill(0)
    nodes.add()
    assert job.wait() == 0, job.output
    first, resumed = job.resumed()
    assert first == 0
    assert resumed >= 2 * EVERY
    run = runs.storage / "llm-finetune"
    assert_equal(state(trained(1, epochs=EPOCHS)), state(run))
    metrics = json.loads((run / "DONE.json").read_text())["metrics"]
    assert metrics["validation_loss"] < 1.5, "guessing gives 2.64"
    assert metrics["tokens_per_second"] > 0


def logits(model: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return model.eval()(torch.arange(LENGTH).unsqueeze(0)).logits


def test_exported_model_gives_the_logits_of_the_best_checkpoint(
    trained: Callable[..., Path], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained(2)
    monkeypatch.setattr(llm_export, "FILE_SIZE", "30KB")
    llm_export.export(str(run), str(tmp_path / "tuned"))
    assert len(list((tmp_path / "tuned").glob("*.safetensors"))) > 1
    store = CheckpointStore(open_storage(str(run.parent), run.name))
    manifests = {saved: store.manifest(saved) or {} for saved in store.committed()}
    best = min(manifests, key=lambda saved: manifests[saved]["metrics"]["validation_loss"])
    expected = AutoModelForCausalLM.from_pretrained(folder / "model")
    before = logits(expected)
    expected.load_state_dict(state(run, best)["model"])
    exported = AutoModelForCausalLM.from_pretrained(tmp_path / "tuned")
    assert torch.equal(logits(exported), logits(expected))
    assert not torch.equal(logits(exported), before)
    assert AutoTokenizer.from_pretrained(tmp_path / "tuned")("a node").input_ids == [2, 3]


def test_exported_adapters_are_pefts_own_and_nothing_else_is_saved(
    trained: Callable[..., Path], folder: Path, tmp_path: Path
) -> None:
    run = trained(1, lora=RANK)
    saved = state(run)["model"]
    assert saved
    assert all(".lora_" in name for name in saved)
    llm_export.export(str(run), str(tmp_path / "tuned"))
    base = AutoModelForCausalLM.from_pretrained(folder / "model")
    before = logits(base)
    tuned = PeftModel.from_pretrained(base, tmp_path / "tuned")
    # Adapters that are not loaded change nothing: their B is zero.
    assert not torch.equal(logits(tuned), before)
    for name, weight in tuned.named_parameters():
        if ".lora_" in name:
            assert torch.equal(weight, saved[name.removeprefix("base_model.model.")]), name


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        (["--workers=1"], True),
        (["--min-workers=1"], True),
        (["--workers=1", "--gpus", "--fsdp=1"], True),
        ([], False),
        (["--workers=1", "--gpus"], False),
    ],
)
def test_adapters_of_one_worker_under_fsdp_1_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], *, refused: bool
) -> None:
    parser = llm_finetune.arguments()
    files = [f"--model={folder / 'model'}", f"--data={folder / 'train.txt'}", f"--length={LENGTH}"]
    options = parser.parse_args([*files, f"--lora={RANK}", *words])
    if refused:
        with pytest.raises(SystemExit):
            llm_finetune.check(parser, options)
        assert "Fix: --workers 2, or GPUs" in capsys.readouterr().err
    else:
        llm_finetune.check(parser, options)


def test_export_refuses_an_existing_folder_and_a_run_without_checkpoints(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="it exists"):
        llm_export.export(str(tmp_path / "none"), str(tmp_path))
    with pytest.raises(InvalidInputError, match=r"no checkpoint of llm_finetune\.py"):
        llm_export.export(str(tmp_path / "none"), str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_half_written_export_is_replaced(trained: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "tuned.partial").mkdir()
    (tmp_path / "tuned.partial" / "old").touch()
    llm_export.export(str(trained(1, lora=RANK)), str(tmp_path / "tuned"))
    assert sorted(one.name for one in (tmp_path / "tuned").iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
    ]
    shutil.rmtree(tmp_path / "tuned")
