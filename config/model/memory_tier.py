"""The model of HyperPod's memory tier."""

from typing import Annotated

from pydantic import Field

from config.model.base import Model


class TieredStorage(Model):
    """HyperPod's memory tier: a part of each node's memory that keeps checkpoints (TieredStorageConfig)."""

    memory_percent: Annotated[int, Field(ge=20, le=100)] = Field(
        default=20, description="Percentage of each node's memory that it may use."
    )
