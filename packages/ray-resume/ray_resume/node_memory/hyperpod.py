"""HyperPod's managed tiered checkpointing as a memory tier."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from amzn_sagemaker_checkpointing.config.in_memory_client import InMemoryClientConfig
from amzn_sagemaker_checkpointing.storage.clients.inmemory.inmemory_client import InMemoryCheckpointClient

from ray_resume.node_memory.tier import RETAINED, TierError

_REQUEST_SECONDS: Final = 30.0


class HyperPodTier:
    """HyperPod's managed tiered checkpointing, through the client of `amzn-sagemaker-checkpointing`.

    Only the client is used. The package's writer and reader need boto3 and s3torchconnector, and know steps, but no
    groups of workers.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._config = InMemoryClientConfig(base_url=url.rstrip("/"), request_timeout=_REQUEST_SECONDS)

    def create(self, namespace: str, ranks: int) -> None:
        with self._asking(namespace, ranks) as client:
            client.get_or_create_namespace()

    def put(self, namespace: str, rank: int, step: int, file: Path) -> None:
        with self._asking(namespace) as client, file.open("rb") as content:
            client.put_checkpoint(step, content, rank=rank)

    def seal(self, namespace: str, ranks: int, step: int, content: bytes) -> None:
        with self._asking(namespace, ranks) as client:
            client.put_checkpoint(step, content, metadata_index=0)

    def get(self, namespace: str, rank: int, step: int) -> bytes | None:
        with self._asking(namespace) as client:
            found: bytes | None = client.get_checkpoint(step, rank=rank)
            return found

    def delete(self, namespace: str) -> None:
        with self._asking(namespace) as client:
            client.delete_namespace()

    @contextmanager
    def _asking(self, namespace: str, ranks: int = 1) -> Iterator[Any]:
        """Yield a client for one call; a client has one connection, and cannot be pickled."""
        client = InMemoryCheckpointClient(
            namespace, "0", str(ranks), config=self._config, steps_retained=RETAINED, logger=_silent()
        )
        try:
            yield client
        except Exception as error:  # the client passes errors of its parts on, such as a header that is no JSON
            cause: BaseException = error
            while cause.__cause__:
                cause = cause.__cause__
            raise TierError(f"{self._url}: {cause}") from error
        finally:
            client.close()


def _silent() -> logging.Logger:
    """Return a logger for the client, whose errors are printed in the run's own lines."""
    logger = logging.getLogger("ray_resume.node_memory")
    logger.propagate = False
    logger.disabled = True
    return logger
