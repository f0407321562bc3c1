"""The configuration: models, rules, facts and estimates of the environments in `environments/`.

All other packages except shipped code import it, so it needs neither jsii nor the AWS SDK and loads in milliseconds.
"""

from config.findings import ConfigError
from config.load import (
    allowed_names,
    available,
    examine,
    examples,
    file_of,
    load,
    load_any,
    load_as,
    misnamed,
    name_of,
    neighbours,
)
from config.model import EksEnvironment, Environment, SlurmEnvironment

__all__ = [
    "ConfigError",
    "EksEnvironment",
    "Environment",
    "SlurmEnvironment",
    "allowed_names",
    "available",
    "examine",
    "examples",
    "file_of",
    "load",
    "load_any",
    "load_as",
    "misnamed",
    "name_of",
    "neighbours",
]
