"""Sequences of tokens of one length for language models, made from a file in the same way at every worker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ray_resume.storage import lasts
from text_data import InvalidDataError

_AT_ONCE = 1000


@dataclass(frozen=True)
class Sequences:
    """Token ids of shape (sequences, length)."""

    ids: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)

    def batch(self, indices: list[int], device: torch.device) -> torch.Tensor:
        return torch.from_numpy(self.ids[indices].astype(np.int64)).to(device)


def read_sequences(file: str, model: str, length: int) -> Sequences:
    """Return the documents of a file, one after the other, cut into sequences of `length` tokens; the rest is left out.

    Args:
        file: .jsonl with an object {"text": …} on each line; .npy with token ids, which are read when they are needed;
            any other name: a text, with empty lines between its documents.
        model: folder of the model whose tokenizer is used. Its end-of-sequence token ends each document.
        length: tokens of a sequence.

    Raises:
        InvalidDataError: the file or the tokenizer is missing, or has another form.
        OSError: the file cannot be read now.
    """
    try:
        ids = _stored(file) if file.endswith(".npy") else _tokenized(list(_documents(file)), model)
    except (OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and not lasts(error):
            raise
        raise InvalidDataError(f"data file {file}: {getattr(error, 'strerror', None) or error}") from error
    number = len(ids) // length
    if not number:
        raise InvalidDataError(f"data file {file} is invalid: {len(ids)} tokens. Allowed: at least {length} (--length)")
    return Sequences(ids[: number * length].reshape(number, length))


def _stored(file: str) -> np.ndarray:
    try:
        ids = np.load(file, mmap_mode="r")
    except ValueError as error:
        raise InvalidDataError(f"data file {file} is invalid: {error}") from error
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise InvalidDataError(
            f"data file {file} is invalid: {ids.dtype} of shape {ids.shape}. Allowed: whole numbers in one dimension"
        )
    return ids


def _documents(file: str) -> Iterator[str]:
    text = Path(file).read_text(encoding="utf-8")
    if not file.endswith(".jsonl"):
        yield from filter(None, (part.strip("\n") for part in text.split("\n\n")))
        return
    for number, line in enumerate(text.splitlines(), 1):
        try:
            document = json.loads(line)["text"]
        except (json.JSONDecodeError, KeyError, TypeError):
            document = None
        if not isinstance(document, str):
            raise InvalidDataError(f'data file {file}, line {number} is invalid. Allowed: {{"text": "…"}}')
        yield document


def _tokenized(documents: list[str], model: str) -> np.ndarray:
    from transformers import AutoTokenizer  # noqa: PLC0415 (seconds, and only text needs it)

    try:
        tokenizer = AutoTokenizer.from_pretrained(model, local_files_only=True)
    except (OSError, ValueError) as error:
        raise InvalidDataError(f"model folder {model}: {str(error).splitlines()[0]}") from error
    end = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    parts = [np.zeros(0, dtype=np.int32)]
    for first in range(0, len(documents), _AT_ONCE):
        tokens = tokenizer(documents[first : first + _AT_ONCE])["input_ids"]
        parts.append(np.array([one for document in tokens for one in (*document, *end)], dtype=np.int32))
    return np.concatenate(parts)
