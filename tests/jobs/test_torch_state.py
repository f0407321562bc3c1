"""The saved state is all that a training needs to resume, for DDP and FSDP: two processes over gloo, without Ray."""

from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import multiprocessing, nn
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.parallel import DistributedDataParallel

import torch_state

HALF = 3


def build(kind: str) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch_state.seed_all(3)
    model: nn.Module = nn.Sequential(nn.Linear(4, 9), nn.Dropout(0.3), nn.Linear(9, 1))
    if kind == "ddp":
        model = DistributedDataParallel(model)
    if kind == "fsdp":
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        model = FullyShardedDataParallel(model, device_mesh=mesh, device_id=torch.device("cpu"), use_orig_params=True)
    return model, torch.optim.Adam(model.parameters(), lr=0.1)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
    for step in steps:
        inputs = torch.full((2, 4), float(step + 1))
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()


def go_on(rank: int, directory: Path, kind: str) -> None:
    """Train and save half-way, then load that into a second model and train it: both must end with equal bits."""
    model, optimizer = build(kind)
    torch_state.seed_all(100 + rank)
    train(model, optimizer, range(HALF))
    torch_state.save(directory / "half", model, optimizer, rank=rank)
    train(model, optimizer, range(HALF, 2 * HALF))
    resumed, its_optimizer = build(kind)
    torch_state.load(directory / "half", resumed, its_optimizer, rank=rank, reseed=1)
    train(resumed, its_optimizer, range(HALF, 2 * HALF))
    for one, other in zip(model.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, other)


def rewrite(rank: int, directory: Path, kind: str) -> None:
    """Load the state that another number of workers wrote, and save it again."""
    model, optimizer = build(kind)
    torch_state.load(directory / "half", model, optimizer, rank=rank, reseed=1)
    torch_state.save(directory / f"by-{dist.get_world_size()}", model, optimizer, rank=rank)


def worker(
    rank: int, world: int, meeting: Path, task: Callable[[int, Path, str], None], call: tuple[Path, str]
) -> None:
    dist.init_process_group("gloo", store=dist.FileStore(str(meeting), world), rank=rank, world_size=world)
    torch.set_num_threads(1)
    task(rank, *call)
    dist.destroy_process_group()


def together(workers: int, task: Callable[[int, Path, str], None], directory: Path, kind: str) -> None:
    # A file instead of a port, which another test could take before its use.
    meeting = directory / f"meeting-of-{workers}-{task.__name__}"
    multiprocessing.spawn(worker, (workers, meeting, task, (directory, kind)), nprocs=workers)


def weights(checkpoint: Path) -> dict[str, torch.Tensor]:
    """Return the weights of a checkpoint, read with PyTorch's own tools."""
    file = checkpoint.with_suffix(".pt")
    dcp_to_torch_save(checkpoint, file)
    return dict(torch.load(file, weights_only=False)["model"])


def test_ddp_training_goes_on_to_the_bit_and_its_weights_are_read_alone(tmp_path: Path) -> None:
    together(2, go_on, tmp_path, "ddp")
    plain, _ = build("plain")
    torch_state.load_weights(tmp_path / "half", plain)
    expected = weights(tmp_path / "half")
    for name, weight in plain.state_dict().items():
        assert torch.equal(weight, expected[name]), name


def test_fsdp_training_goes_on_to_the_bit_and_other_numbers_of_workers_read_it(tmp_path: Path) -> None:
    together(2, go_on, tmp_path, "fsdp")
    expected = weights(tmp_path / "half")
    for workers in (1, 3):
        together(workers, rewrite, tmp_path, "fsdp")
        rewritten = weights(tmp_path / f"by-{workers}")
        assert rewritten.keys() == expected.keys()
        for name, weight in rewritten.items():
            assert torch.equal(weight, expected[name]), name
