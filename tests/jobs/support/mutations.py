"""Defects of the training library and its examples that once went unseen, each with a test that now sees it.

A mutation replaces a text that its file has once. test_mutations.py applies them.
"""

from dataclasses import dataclass
from typing import Final

LIBRARY: Final = "packages/ray-resume/ray_resume/"


@dataclass(frozen=True)
class Mutation:
    """A changed text of a file, and the test that fails on it."""

    file: str
    before: str
    after: str
    test: str


_POWER = "test_checkpoints.py::test_nothing_of_a_committed_checkpoint_is_lost_by_a_power_failure"
_GENERATORS = "test_torch_state.py::test_every_generator_continues"
_GPU_GENERATOR = "test_torch_state.py::test_generator_of_the_workers_gpu_continues"
_JOINING = "test_torch_state.py::test_worker_without_saved_generators_is_seeded"
_COMMON = "test_torch_state.py::test_state_that_is_saved_once_must_be_the_same_at_all_workers"
_OWN = "test_torch_state.py::test_each_worker_gets_its_own_state_back_and_other_numbers_of_workers_are_refused"
_RESTARTS = "test_resume.py::test_failing_workers_are_restarted_three_times_unless_the_script_asks_for_more"
_PRUNES = "test_checkpoints.py::test_only_rank_0_removes_old_checkpoints"
_WORKERS = "test_calls.py::test_workers_get_the_cpus_and_the_gpu_that_they_ask_for"
_ASKS = "test_calls.py::test_training_example_asks_for_the_gpus_of_its_arguments"
_INFERENCE = "test_calls.py::test_batch_inference_asks_for_the_gpus_of_its_arguments"
_HALF = "test_fsdp_finetune.py::test_gpus_compute_in_bf16_and_offload_on_request"
_OFFLOAD = "test_fsdp_finetune.py::test_offload_is_an_argument"
_CLIPS = "test_fsdp_finetune.py::test_gradients_are_clipped_to_a_norm_of_1_over_all_workers"
_LLM_HALF = "test_llm_model.py::test_gpus_compute_in_bf16_and_add_up_in_float32"
_LLM_CLIPS = "test_llm_model.py::test_gradients_are_clipped_by_their_norm_over_all_workers"
_LLM_LOST = "test_llm_finetune.py::test_interrupted_finetuning_ends_with_the_same_bits"

_GPU: Final = "gpu=options.gpus"

MUTATIONS: Final = {
    # No fsync.
    "a small file's content is not synced": Mutation(
        f"{LIBRARY}storage.py", "                os.fsync(file.fileno())\n", "", _POWER
    ),
    "a small file's name is not synced": Mutation(
        f"{LIBRARY}storage.py", "            raise\n        _fsync(path.parent)\n", "            raise\n", _POWER
    ),
    "a part's content is not synced": Mutation(f"{LIBRARY}storage.py", "            _fsync(path)\n", "", _POWER),
    "a part's name is not synced": Mutation(
        f"{LIBRARY}storage.py", "            _fsync(parent)\n", "            pass\n", _POWER
    ),
    "a new folder's name is not synced": Mutation(
        f"{LIBRARY}storage.py", "        _fsync(one.parent)\n", "        pass\n", _POWER
    ),
    # Generators.
    "Python's generator is not restored": Mutation(
        f"{LIBRARY}generators.py", '    random.setstate(state["python"])\n', "", _GENERATORS
    ),
    "NumPy's generator is not restored": Mutation(
        f"{LIBRARY}generators.py", '    np.random.set_state(state["numpy"])\n', "", _GENERATORS
    ),
    "CUDA's generator is not saved": Mutation(
        f"{LIBRARY}generators.py", '"cuda": torch.cuda.get_rng_state() if', '"cuda": None if', _GPU_GENERATOR
    ),
    "CUDA's generator is not restored": Mutation(
        f"{LIBRARY}generators.py", '        torch.cuda.set_rng_state(state["cuda"])\n', "        pass\n", _GPU_GENERATOR
    ),
    "joining workers are not reseeded": Mutation(
        f"{LIBRARY}torch_state.py", "        seed_all(reseed)\n", "        pass\n", _JOINING
    ),
    "joining workers do not reseed NumPy": Mutation(
        f"{LIBRARY}generators.py", "    np.random.seed(seed % 2**32)\n", "", _JOINING
    ),
    # Extra state.
    "states of several workers are not compared": Mutation(
        f"{LIBRARY}torch_state.py", "    _require_common(states)\n", "", _COMMON
    ),
    "a worker loads another one's own state": Mutation(
        f"{LIBRARY}torch_state.py", "_read(directory / _own_file(rank))", "_read(directory / _own_file(0))", _OWN
    ),
    # Restarts and removal.
    "workers are restarted without end": Mutation(
        f"{LIBRARY}training.py", "WORKER_FAILURES: Final = 3", "WORKER_FAILURES: Final = -1", _RESTARTS
    ),
    "the number of restarts is ignored": Mutation(
        f"{LIBRARY}training.py", "max_failures=worker_failures", "max_failures=WORKER_FAILURES", _RESTARTS
    ),
    "every rank prunes": Mutation(
        f"{LIBRARY}saving.py",
        "        if self._rank == 0:\n            self._store.prune",
        "        if True:\n            self._store.prune",
        _PRUNES,
    ),
    # --gpus.
    "workers ask for no GPU": Mutation(f"{LIBRARY}training.py", '({"GPU": 1} if gpu else {})', "{}", _WORKERS),
    "workers do not use their GPU": Mutation(
        f"{LIBRARY}training.py", '{"CPU": 0}, use_gpu=gpu', '{"CPU": 0}, use_gpu=False', _WORKERS
    ),
    "--gpus of pytorch_ddp.py is ignored": Mutation("ray_jobs/pytorch_ddp.py", _GPU, "gpu=False", _ASKS),
    "--gpus of fsdp_finetune.py is ignored": Mutation("ray_jobs/fsdp_finetune.py", _GPU, "gpu=False", _ASKS),
    "--gpus of llm_finetune.py is ignored": Mutation("ray_jobs/llm_finetune.py", _GPU, "gpu=False", _ASKS),
    "--gpus of sweep.py is ignored": Mutation("ray_jobs/sweep.py", _GPU, "gpu=False", _ASKS),
    "--gpus of batch_inference.py is ignored": Mutation(
        "ray_jobs/batch_inference.py", "num_gpus=1 if options.gpus else 0", "num_gpus=0", _INFERENCE
    ),
    # bf16 and offload.
    "bf16 of fsdp_finetune.py is ignored": Mutation(
        "ray_jobs/fsdp_finetune.py", "mixed_precision=half if gpu else None", "mixed_precision=None", _HALF
    ),
    "bf16 of FSDP1 is ignored": Mutation(
        "ray_jobs/llm_model.py",
        "mixed_precision=MixedPrecision(**half) if half else None",
        "mixed_precision=None",
        _LLM_HALF,
    ),
    "bf16 of FSDP2's blocks is ignored": Mutation(
        "ray_jobs/llm_model.py",
        "fully_shard(unit, mesh=mesh, mp_policy=MixedPrecisionPolicy(**half))",
        "fully_shard(unit, mesh=mesh)",
        _LLM_HALF,
    ),
    "bf16 of FSDP2's root is ignored": Mutation(
        "ray_jobs/llm_model.py",
        "fully_shard(model, mesh=mesh, mp_policy=MixedPrecisionPolicy(**half))",
        "fully_shard(model, mesh=mesh)",
        _LLM_HALF,
    ),
    "gradients are added up in bf16": Mutation(
        "ray_jobs/llm_model.py",
        '{"param_dtype": torch.bfloat16, "reduce_dtype": torch.float32}',
        '{"param_dtype": torch.bfloat16}',
        _LLM_HALF,
    ),
    "parameters are never offloaded": Mutation(
        "ray_jobs/fsdp_finetune.py",
        'CPUOffload(offload_params=True) if gpu and config["cpu_offload"] else None',
        "None",
        _HALF,
    ),
    "parameters are always offloaded": Mutation(
        "ray_jobs/fsdp_finetune.py", 'if gpu and config["cpu_offload"]', "if gpu", _HALF
    ),
    "--cpu-offload is ignored": Mutation(
        "ray_jobs/fsdp_finetune.py",
        '"--cpu-offload", action="store_true"',
        '"--cpu-offload", action="store_false"',
        _OFFLOAD,
    ),
    # Clipping.
    "fsdp_finetune.py does not clip": Mutation(
        "ray_jobs/fsdp_finetune.py", "        model.clip_grad_norm_(1.0)\n", "", _CLIPS
    ),
    "llm_finetune.py does not clip": Mutation("ray_jobs/llm_finetune.py", "        clip(model, 1.0)\n", "", _LLM_LOST),
    "FSDP1 does not clip": Mutation(
        "ray_jobs/llm_model.py", "        model.clip_grad_norm_(norm)\n", "        pass\n", _LLM_CLIPS
    ),
    "FSDP2 does not clip": Mutation(
        "ray_jobs/llm_model.py",
        "        nn.utils.clip_grad_norm_(model.parameters(), norm)\n",
        "        pass\n",
        _LLM_CLIPS,
    ),
}
