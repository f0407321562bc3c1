"""A language model in shards: its weights, its gradients, and how much of it a worker holds. Two processes, no Ray."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from transformers import AutoModelForCausalLM

from llm_data import read_sequences
from llm_finetune import ShardedWorker
from llm_model import INDEX, InvalidModelError, Memory, Weights, clip, sharded, skeleton
from ray_resume.data_order import DataOrder
from tests.jobs.support import fsdp2_on_cpu
from tests.jobs.support.live_bytes import LiveBytes
from tests.jobs.support.tiny_llama import LENGTH, make_model, make_text
from tests.jobs.support.together import together

WORKERS: Final = 2
BATCH: Final = 8
LITTLE: Final = 0.01
"""A norm far below that of the gradients."""
CPU: Final = torch.device("cpu")

Measured = dict[str, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the model and a text."""
    folder = tmp_path_factory.mktemp("llm")
    make_model(folder / "model", blocks=8, dropout=0)
    make_text(folder / "train.txt", 20)
    return folder


@pytest.fixture(scope="module")
def measured(folder: Path) -> Callable[[int], Measured]:
    """Return a function that returns what rank 0 measured with a version of FSDP."""

    @cache
    def by(fsdp: int) -> Measured:
        together(WORKERS, measure, folder / f"meeting-{fsdp}", folder, fsdp)
        return dict(torch.load(folder / f"measured-{fsdp}.pt"))

    return by


def measure(rank: int, folder: Path, fsdp: int) -> None:
    """Load the model and train a step, in different micro-batches; save what was measured."""
    fsdp2_on_cpu.allow()
    result: Measured = {"steps": {}, "exchanges": {}}
    for micro_batch in (1, BATCH // WORKERS):
        with LiveBytes() as live:
            empty = skeleton(str(folder / "model"), 0)
            weights = Weights(str(folder / "model"), empty, 0)
            model = sharded(empty, weights, Memory(micro_batch, fsdp, activation_checkpointing=True), CPU)
        result["peak"] = live.peak
        result["loaded"] = whole(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        sequences = read_sequences(str(folder / "train.txt"), str(folder / "model"), LENGTH)
        order = DataOrder(len(sequences), BATCH, 0)
        with mock.patch.object(dist, "reduce_scatter_tensor", wraps=dist.reduce_scatter_tensor) as exchanged:
            ShardedWorker(model, micro_batch, CPU).train(sequences, order, 0)
        result["exchanges"][micro_batch] = exchanged.call_count
        optimizer.step()
        result["steps"][micro_batch] = whole(model)
    clip(model, LITTLE)
    # At a rate of 1 without momentum, the weights change by the gradients.
    optimizer.step()
    after = whole(model)
    result["clipped"] = sum((after[name] - one).square().sum() for name, one in result["steps"][micro_batch].items())
    if rank == 0:
        torch.save(result, folder / f"measured-{fsdp}.pt")


def whole(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return dict(get_model_state_dict(model, options=StateDictOptions(full_state_dict=True)))


@pytest.mark.parametrize("fsdp", [1, 2])
def test_weights_are_bit_by_bit_those_of_ordinary_loading(
    folder: Path, measured: Callable[[int], Measured], fsdp: int
) -> None:
    expected = AutoModelForCausalLM.from_pretrained(folder / "model").state_dict()
    loaded = measured(fsdp)["loaded"]
    assert loaded.keys() == expected.keys()
    assert [name for name, one in expected.items() if not torch.equal(loaded[name], one)] == []


@pytest.mark.parametrize(("fsdp", "most"), [(1, 0.8), (2, 0.55)])
def test_no_worker_ever_holds_the_whole_model(
    folder: Path, measured: Callable[[int], Measured], fsdp: int, most: float
) -> None:
    """At most its half, and with FSDP1 one of the eight blocks twice: as read, and as flattened."""
    with LiveBytes() as live:
        ordinary = AutoModelForCausalLM.from_config(skeleton(str(folder / "model"), 0).config)
    total = sum(one.nbytes for one in ordinary.parameters())
    assert live.peak >= total, "the measure must see what it is about"
    assert measured(fsdp)["peak"] < most * total


@pytest.mark.parametrize("fsdp", [1, 2])
def test_accumulated_gradients_are_those_of_the_whole_batch_and_exchanged_once(
    folder: Path, measured: Callable[[int], Measured], fsdp: int
) -> None:
    ordinary = AutoModelForCausalLM.from_pretrained(folder / "model").eval()
    sequences = read_sequences(str(folder / "train.txt"), str(folder / "model"), LENGTH)
    batch = sequences.batch(DataOrder(len(sequences), BATCH, 0).indices(0), CPU)
    ordinary(input_ids=batch, labels=batch).loss.backward()
    steps = measured(fsdp)["steps"]
    for name, one in ordinary.named_parameters():
        for micro_batch, trained in steps.items():
            assert torch.allclose(trained[name], one - one.grad, atol=1e-6), f"{name}, {micro_batch} at a time"
    exchanges = measured(fsdp)["exchanges"]
    assert exchanges[1] == exchanges[BATCH // WORKERS] == 9, "one for each block, and one for the rest"


@pytest.mark.parametrize("fsdp", [1, 2])
def test_gradients_are_clipped_by_their_norm_over_all_workers(measured: Callable[[int], Measured], fsdp: int) -> None:
    assert measured(fsdp)["clipped"].sqrt().item() == pytest.approx(LITTLE, rel=1e-2)


@pytest.mark.usefixtures("group_of_one")
@pytest.mark.parametrize(("device", "half"), [("cuda", torch.bfloat16), ("cpu", None)])
@pytest.mark.parametrize("fsdp", [1, 2])
def test_gpus_compute_in_bf16_and_add_up_in_float32(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fsdp: int, device: str, half: torch.dtype | None
) -> None:
    asked: list[Any] = []

    def shard(module: torch.nn.Module, **words: Any) -> torch.nn.Module:
        asked.append(words.get("mixed_precision") or words.get("mp_policy"))
        return module

    for name in ("FullyShardedDataParallel", "fully_shard"):
        monkeypatch.setattr(f"llm_model.{name}", shard)
    monkeypatch.setattr("llm_model.init_device_mesh", lambda *_: None)
    monkeypatch.setattr(Weights, "fill", lambda *_: None)
    empty = skeleton(str(folder / "model"), 0)
    sharded(empty, Weights(str(folder / "model"), empty, 0), Memory(1, fsdp), torch.device(device))
    assert len(asked) == 9, "each block, and the rest"
    assert {one and one.param_dtype for one in asked} == {half}
    assert {one and one.reduce_dtype for one in asked} == {half and torch.float32}


def test_tied_weights_are_one_parameter(tmp_path: Path) -> None:
    make_model(tmp_path, tied=True)
    model = skeleton(str(tmp_path), 0)
    Weights(str(tmp_path), model, 0).fill(model, CPU)
    assert model.lm_head.weight is model.model.embed_tokens.weight
    expected = AutoModelForCausalLM.from_pretrained(tmp_path).lm_head.weight
    assert torch.equal(model.lm_head.weight, expected)


def test_folder_without_a_usable_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidModelError, match=r"there is no config\.json in it"):
        skeleton(str(tmp_path), 0)
    make_model(tmp_path)
    empty = skeleton(str(tmp_path), 0)
    index = json.loads((tmp_path / INDEX).read_text())
    del index["weight_map"]["model.norm.weight"]
    (tmp_path / INDEX).write_text(json.dumps(index))
    with pytest.raises(InvalidModelError, match=r"model\.norm\.weight is in none of its files"):
        Weights(str(tmp_path), empty, 0)
    (tmp_path / INDEX).unlink()
    with pytest.raises(InvalidModelError, match="no weights"):
        Weights(str(tmp_path), empty, 0)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "no such model"}))
    with pytest.raises(InvalidModelError, match="no such model"):
        skeleton(str(tmp_path), 0)
