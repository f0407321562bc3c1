"""The private ECR registries of a copy: logins for all, repositories in the environment's account."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from config import Environment
from ops.clients import CallerAccount
from ops.mirror import login
from ops.mirror.login import EcrHost
from ops.mirror.plan import RequiredCopy


@dataclass(frozen=True)
class EcrRegistries:
    """The ECR registries that copies come from and go to, with a client for each. Methods raise the SDK's errors."""

    environment: Environment
    targets: Sequence[str]
    clients: Mapping[EcrHost, Any]

    def missing_repositories(self) -> list[str]:
        """Return the repositories of the environment's account that the targets need; ECR creates none for a push.

        Another account's repositories are its owner's to create.
        """
        names: set[str] = set()
        for host, ecr in self._own():
            pages = ecr.get_paginator("describe_repositories").paginate(registryId=host.account)
            present = {found["repositoryName"] for page in pages for found in page["repositories"]}
            names |= {_repository(target) for target in self._targets(host)} - present
        return sorted(names)

    def create(self, repository: str) -> None:
        """Create a repository with tags that never move, a scan of each pushed image, and the company's tags."""
        tags = [{"Key": key, "Value": value} for key, value in self.environment.company.tags.items()]
        for host, ecr in self._own():
            if self._targets(host):
                ecr.create_repository(
                    repositoryName=repository,
                    imageTagMutability="IMMUTABLE",
                    imageScanningConfiguration={"scanOnPush": True},
                    tags=tags,
                )

    @contextmanager
    def logged_in(self) -> Iterator[Mapping[str, str]]:
        """Yield the variables that log crane in to every registry."""
        with login.logged_in({host.host: _token(ecr) for host, ecr in self.clients.items()}) as variables:
            yield variables

    def _own(self) -> Iterator[tuple[EcrHost, Any]]:
        return ((host, ecr) for host, ecr in self.clients.items() if host.account == self.environment.account)

    def _targets(self, host: EcrHost) -> list[str]:
        return [target for target in self.targets if target.startswith(f"{host.host}/")]


def of(environment: Environment, wanted: Sequence[RequiredCopy]) -> EcrRegistries:
    """Return the ECR registries of the copies. Raises UnreachableError without credentials of the account."""
    hosts = login.ecr_hosts([reference for each in wanted for reference in (each.source, each.target)])
    account = CallerAccount(environment) if hosts else None
    clients = {host: account.client("ecr", host.region) for host in hosts} if account else {}
    return EcrRegistries(environment, [each.target for each in wanted], clients)


def _token(ecr: Any) -> str:
    """Return the caller's login, as base64 text, for every registry of the region that he may read."""
    [found] = ecr.get_authorization_token()["authorizationData"]
    return str(found["authorizationToken"])


def _repository(image: str) -> str:
    """Return the repository of HOST/REPOSITORY:TAG or HOST/REPOSITORY@DIGEST."""
    return re.split("[:@]", image.partition("/")[2])[0]
