"""A Llama model of a few thousand weights with its tokenizer, and a text for it."""

import random
from pathlib import Path
from typing import Final

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

LENGTH: Final = 12
_WORDS: Final = ("a", "node", "fails", "the", "run", "waits", "and", "resumes", "trains", "from", "its", "checkpoint")
_SPECIAL: Final = ("<unk>", "</s>")


def make_model(folder: Path, *, blocks: int = 2, dropout: float = 0.1, tied: bool = False) -> None:
    """Write the model, in several files, and the tokenizer."""
    words = {word: number for number, word in enumerate((*_SPECIAL, *_WORDS))}
    tokenizer = Tokenizer(WordLevel(words, unk_token=_SPECIAL[0]))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token=_SPECIAL[0], eos_token=_SPECIAL[1])
    wrapped.save_pretrained(folder)
    shape = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": blocks, "num_attention_heads": 4}
    config = LlamaConfig(
        vocab_size=len(words), num_key_value_heads=2, attention_dropout=dropout, tie_word_embeddings=tied, **shape
    )
    torch.manual_seed(5)
    LlamaForCausalLM(config).save_pretrained(folder, max_shard_size="30KB")


def make_text(file: Path, documents: int) -> None:
    """Write so many documents of a few words; each word is always followed by the same one, which can be learned."""
    generator = random.Random(documents)  # noqa: S311 (a text is no secret)
    texts = []
    for _ in range(documents):
        first, length = generator.randrange(len(_WORDS)), generator.randint(5, 20)
        texts.append(" ".join(_WORDS[(first + number) % len(_WORDS)] for number in range(length)))
    file.write_text("\n\n".join(texts) + "\n")
