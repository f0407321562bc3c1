"""Serve a fine-tuned language model over HTTP with Ray Serve, on the RayCluster that also trains.

The model is a folder that llm_export.py wrote. Each replica loads it once; Serve replaces a replica that is lost, and
asks the others meanwhile. The job runs until it is stopped, and then removes its replicas. If the head is lost, the
run's next attempt starts them again.

    POST /<RUN_NAME> {"prompt": "Once upon", "tokens": 20}    ->    {"completion": " a time …"}

    python serve_finetuned.py --model /fsx/ray/models/tuned --replicas 2 --gpus
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import threading
from pathlib import Path
from typing import Any

import ray
import torch
from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse
from transformers import AutoModelForCausalLM, AutoTokenizer

from arguments import positive

MOST = 512
"""How many tokens one request may ask for."""


class Completions:
    """A replica: the model, loaded once."""

    def __init__(self, folder: str, gpu: bool) -> None:
        self._device = torch.device("cuda" if gpu else "cpu")
        self._tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        loaded = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, torch_dtype="auto")
        self._model = loaded.to(self._device).eval()

    async def __call__(self, request: Request) -> JSONResponse:
        try:
            prompt, tokens = asked(await request.json())
        except ValueError as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        # In a thread: meanwhile the replica answers Serve's health checks.
        return JSONResponse({"completion": await asyncio.to_thread(self.complete, prompt, tokens)})

    def complete(self, prompt: str, tokens: int) -> str:
        """Return the most probable continuation of a prompt, of at most so many tokens."""
        given = self._tokenizer(prompt, return_tensors="pt").to(self._device)
        with torch.inference_mode():
            [made] = self._model.generate(
                input_ids=given["input_ids"],
                attention_mask=given["attention_mask"],
                max_new_tokens=tokens,
                do_sample=False,
                pad_token_id=self._model.config.eos_token_id,
            )
        return str(self._tokenizer.decode(made[given["input_ids"].shape[1] :], skip_special_tokens=True))


def asked(body: Any) -> tuple[str, int]:
    """Return the prompt and the number of tokens of a request's body. Raises ValueError if it is not valid."""
    if not isinstance(body, dict) or not isinstance(prompt := body.get("prompt"), str) or not prompt:
        raise ValueError('the body is invalid: it has no prompt. Allowed: {"prompt": TEXT, "tokens": NUMBER}')
    tokens = body.get("tokens", 20)
    if not isinstance(tokens, int) or not 1 <= tokens <= MOST:
        raise ValueError(f"tokens {tokens} is invalid. Allowed: whole numbers from 1 to {MOST}")
    return prompt, tokens


def run(name: str, options: argparse.Namespace) -> None:
    """Serve until SIGTERM or SIGINT, which Ray sends to a job that it stops."""
    ending = threading.Event()
    ray.init()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    serve.start(proxy_location="HeadOnly", http_options={"host": options.host, "port": options.port})
    replicas = serve.deployment(
        Completions,
        num_replicas=options.replicas,
        # One request at a time fills a replica's cores or GPU; others wait.
        max_ongoing_requests=1,
        ray_actor_options={"num_cpus": options.cpus, "num_gpus": 1 if options.gpus else 0},
    )
    # It replaces what an earlier attempt left behind: Serve outlives a job that was killed.
    serve.run(replicas.bind(options.model, options.gpus), name=name, route_prefix=f"/{name}")
    print(f"run {name}: serves {options.model} on http://{options.host}:{options.port}/{name}", flush=True)
    ending.wait()
    serve.delete(name)
    if not serve.status().applications:
        serve.shutdown()
    print(f"run {name}: serves no longer", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--model", metavar="FOLDER", required=True, help="a whole model that llm_export.py wrote")
    parser.add_argument("--name", default="serve-finetuned", help="name and path; RUN_NAME overrides it (%(default)s)")
    parser.add_argument("--replicas", type=positive, default=1, help="how many replicas answer (%(default)s)")
    parser.add_argument("--gpus", action="store_true", help="each replica has a GPU of its own")
    parser.add_argument("--cpus", type=float, default=1, help="CPUs of each replica (%(default)s)")
    parser.add_argument("--host", default="127.0.0.1", help="the head's address to listen on (%(default)s)")
    parser.add_argument("--port", type=positive, default=8000, help="of all that one RayCluster serves (%(default)s)")
    options = parser.parse_args()
    if not (Path(options.model) / "config.json").is_file():
        parser.error(f"--model {options.model} is invalid: it has no config.json. Allowed: a whole model's folder")
    run(os.environ.get("RUN_NAME") or options.name, options)


if __name__ == "__main__":
    main()
