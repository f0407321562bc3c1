"""The sequences of tokens that the language model's fine-tuning reads."""

import json
from pathlib import Path

import numpy as np
import pytest

from llm_data import read_sequences
from tests.jobs.support.tiny_llama import make_model
from text_data import InvalidDataError


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    make_model(folder)
    return str(folder)


# a node fails </s> the run waits and resumes </s>
IDS = [2, 3, 4, 1, 5, 6, 7, 8, 9, 1]


def test_text_and_jsonl_and_tokens_give_the_same_sequences(tmp_path: Path, model: str) -> None:
    documents = ["a node fails", "the run waits\nand resumes"]
    (tmp_path / "text").write_text("\n\n".join(documents) + "\n\n\n")
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps({"text": one, "id": 1}) + "\n" for one in documents))
    np.save(tmp_path / "ids.npy", np.array(IDS, dtype=np.uint16))
    for name in ("text", "lines.jsonl", "ids.npy"):
        read = read_sequences(str(tmp_path / name), model, 3)
        assert read.ids.tolist() == [IDS[0:3], IDS[3:6], IDS[6:9]], f"{name}: without the rest of one token"


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("none.txt", None, "No such file or directory"),
        ("short.txt", "a node", r"3 tokens\. Allowed: at least 4"),
        ("empty.txt", "", r"0 tokens\. Allowed: at least 4"),
        ("bad.jsonl", '{"text": "a"}\nnode\n', r'line 2 is invalid\. Allowed: \{"text"'),
        ("other.jsonl", '{"words": "a"}\n', r'line 1 is invalid\. Allowed: \{"text"'),
        ("bad.npy", "text", r"bad\.npy is invalid"),
    ],
)
def test_file_of_another_form_is_named(tmp_path: Path, model: str, name: str, content: str | None, told: str) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(InvalidDataError, match=told):
        read_sequences(str(tmp_path / name), model, 4)


def test_tokens_that_are_no_whole_numbers_are_refused(tmp_path: Path, model: str) -> None:
    np.save(tmp_path / "ids.npy", np.ones(9))
    with pytest.raises(InvalidDataError, match="whole numbers in one dimension"):
        read_sequences(str(tmp_path / "ids.npy"), model, 4)
