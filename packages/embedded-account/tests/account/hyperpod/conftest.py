"""Provide a bench for tests of the HyperPod simulator."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from embedded_account.hyperpod.bench import HyperPodBench

Refusal = Callable[..., str]


@pytest.fixture
def bench() -> Iterator[HyperPodBench]:
    with HyperPodBench() as bench:
        yield bench


@pytest.fixture
def sagemaker(bench: HyperPodBench) -> Any:
    return bench.client("sagemaker")


@pytest.fixture
def refusal() -> Refusal:
    """Return a function that makes a call, expects an error code, and returns the error's message.

    Usage: `refusal("ConflictException", call, **arguments)`.
    """

    def refused(code: str, call: Callable[..., Any], **arguments: Any) -> str:
        with pytest.raises(ClientError) as raised:
            call(**arguments)
        assert raised.value.response["Error"]["Code"] == code
        return str(raised.value.response["Error"]["Message"])

    return refused
