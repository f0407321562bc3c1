"""Labelled sentences for the examples: generated from a seed, or read from a file."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from ray_resume.storage import lasts

LONGEST = 128
_WORDS = ("the cluster trains", "a node fails", "the run goes on", "we wait", "it resumes", "nothing is lost")


class InvalidDataError(Exception):
    """A file has invalid content; the message names the file and what is allowed."""


Tokens = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Sentences:
    """Texts with their labels, and the function that turns a batch of texts into token ids and their mask."""

    texts: Sequence[str]
    labels: Sequence[int]
    tokenize: Callable[[list[str]], Tokens]

    @property
    def label_count(self) -> int:
        return max(self.labels) + 1

    def batch(self, indices: list[int], device: torch.device) -> tuple[Tokens, torch.Tensor]:
        ids, mask = self.tokenize([self.texts[index] for index in indices])
        labels = torch.tensor([self.labels[index] for index in indices], device=device)
        return (ids.to(device), mask.to(device)), labels


def made_here(samples: int, seed: int) -> Sentences:
    """Return generated sentences; those with an exclamation mark have label 1."""
    generator = random.Random(seed)  # noqa: S311 (data, not secrets)
    labels = [generator.randrange(2) for _ in range(samples)]
    texts = [" ".join(generator.choices(_WORDS, k=3)) + ("!" if label else ".") for label in labels]
    return Sentences(texts, labels, _bytes)


def read_sentences(file: str, model: str | None) -> Sentences:
    """Return the sentences of a file with a line for each (label, tab, text).

    Args:
        file: the file's path.
        model: folder of the model whose tokenizer is used; None: the texts' bytes are the tokens.

    Raises:
        InvalidDataError: the file or the folder is missing, or a line has another form.
        OSError: the file cannot be read now.
    """
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and not lasts(error):
            raise
        raise InvalidDataError(f"data file {file}: {getattr(error, 'strerror', None) or error}") from error
    parts = [line.partition("\t") for line in lines]
    for number, (label, _, text) in enumerate(parts, 1):
        if not label.isdecimal() or not text.strip():
            raise InvalidDataError(f"data file {file}, line {number} is invalid. Allowed: label (0, 1, …), tab, text")
    if not parts:
        raise InvalidDataError(f"data file {file} is empty. Allowed: lines of label (0, 1, …), tab, text")
    texts, labels = [text for _, _, text in parts], [int(label) for label, _, _ in parts]
    return Sentences(texts, labels, _tokenizer(model) if model else _bytes)


def _bytes(texts: list[str]) -> Tokens:
    encoded = [text.encode()[:LONGEST] for text in texts]
    longest = max(map(len, encoded))
    ids = torch.tensor([[*text, *[0] * (longest - len(text))] for text in encoded])
    mask = torch.tensor([[1] * len(text) + [0] * (longest - len(text)) for text in encoded])
    return ids, mask


def _tokenizer(model: str) -> Callable[[list[str]], Tokens]:
    if not (Path(model) / "config.json").is_file():
        raise InvalidDataError(f"model folder {model}: there is no config.json in it")
    from transformers import AutoTokenizer  # noqa: PLC0415 (takes seconds, and only a real model needs it)

    try:
        tokenizer = AutoTokenizer.from_pretrained(model, local_files_only=True)
    except (OSError, ValueError) as error:
        raise InvalidDataError(f"model folder {model}: {str(error).splitlines()[0]}") from error

    def tokenize(texts: list[str]) -> Tokens:
        tokens = tokenizer(texts, padding=True, truncation=True, max_length=LONGEST, return_tensors="pt")
        return tokens["input_ids"], tokens["attention_mask"]

    return tokenize
