"""The configuration: models, rules, facts and estimates of the environments in `environments/`.

All other packages except shipped code import it, so it needs neither jsii nor the AWS SDK and loads in milliseconds.
"""

from config.findings import ConfigError
from config.load import allowed_names, available, examine, examples, file_of, load, misnamed, name_of, neighbours
from config.model import Environment

__all__ = [
    "ConfigError",
    "Environment",
    "allowed_names",
    "available",
    "examine",
    "examples",
    "file_of",
    "load",
    "misnamed",
    "name_of",
    "neighbours",
]
