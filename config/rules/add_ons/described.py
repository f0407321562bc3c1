"""Rules about how the environment describes an add-on: its configuration, namespace and role."""

from collections.abc import Iterator
from typing import Any, Final

from config.facts.add_ons import AddOnFacts, known_add_ons
from config.model import AddOn, EksEnvironment
from config.rules.rule import Violation, error, warning

_POLICIES: Final = ("vpc-cni", "enableNetworkPolicy")
"""The key that isolation relies on; the project sets it to "true"."""
_UNKNOWN_KEY: Final = "additionalProperties"


@error("V97")
def described_add_ons(environment: EksEnvironment) -> Iterator[Violation]:
    """Require a configuration of the kinds in the add-on's schema, its own namespace, and a complete role.

    Why: EKS refuses values of another kind, and does not move an add-on. A role is for one service account.
    Source: EKS API reference, CreateAddon; AWS CLI command reference, eks describe-addon-configuration, examples.
    Example: eks.add_ons: [{name: coredns, configuration: {replicaCount: "2"}}]
    """
    for n, add_on in enumerate(environment.eks.add_ons):
        key, known = f"eks.add_ons.{n}", known_add_ons().get(add_on.name)
        if known and known.schema:
            yield from _wrong_kinds(key, add_on, known)
        yield from _network_policies(f"{key}.configuration", add_on)
        if known and add_on.namespace not in (None, known.namespace):
            reason = f"EKS puts {add_on.name} into {known.namespace}"
            yield Violation(f"{key}.namespace", reason, known.namespace, "remove the key")
        if add_on.role:
            yield from _role(key, add_on, environment.account)


@warning("V98")
def unknown_configuration(environment: EksEnvironment) -> Iterator[Violation]:
    """Warn of a key that the published schema of an add-on lacks.

    Why: EKS refuses unknown keys. Yet the schema is of one version, and a newer version may know more keys.
    Source: AWS CLI command reference, eks describe-addon-configuration, examples.
    Example: eks.add_ons: [{name: coredns, configuration: {replicas: 2}}]
    """
    for n, add_on in enumerate(environment.eks.add_ons):
        known = known_add_ons().get(add_on.name)
        if known and known.schema:
            for mistake in _mistakes(add_on, known):
                if mistake.validator == _UNKNOWN_KEY:
                    yield from _unknown_keys(f"eks.add_ons.{n}.configuration", mistake, known)


def _mistakes(add_on: AddOn, known: AddOnFacts) -> Iterator[Any]:
    # Few environments configure an add-on: the others need not wait for the import.
    if add_on.configuration:
        from jsonschema import Draft6Validator  # type: ignore[import-untyped]  # noqa: PLC0415 - it publishes no types

        yield from Draft6Validator(known.schema).iter_errors(add_on.configuration)


def _wrong_kinds(key: str, add_on: AddOn, known: AddOnFacts) -> Iterator[Violation]:
    for mistake in _mistakes(add_on, known):
        if mistake.validator != _UNKNOWN_KEY:
            wanted = _wanted(mistake)
            yield Violation(
                _place(f"{key}.configuration", mistake),
                f"the schema of {add_on.name} {known.schema_of} asks for {wanted}",
                wanted,
                "quote numbers and booleans where a text is asked for" if wanted == "string" else "correct the value",
            )


def _unknown_keys(key: str, mistake: Any, known: AddOnFacts) -> Iterator[Violation]:
    allowed = mistake.schema.get("properties", {})
    for name in mistake.instance:
        if name not in allowed:
            yield Violation(
                f"{_place(key, mistake)}.{name}",
                f"the schema of {known.schema_of} has no such key",
                ", ".join(allowed),
                "correct the key, or accept the warning if `aws eks describe-addon-configuration` lists it",
            )


def _place(key: str, mistake: Any) -> str:
    return ".".join([key, *map(str, mistake.absolute_path)])


def _wanted(mistake: Any) -> str:
    value = mistake.validator_value
    if mistake.validator == "type":
        return " or ".join(value) if isinstance(value, list) else str(value)
    return f"{mistake.validator} {value}"


def _network_policies(key: str, add_on: AddOn) -> Iterator[Violation]:
    name, switch = _POLICIES
    if add_on.name == name and add_on.configuration.get(switch, "true") == "false":
        reason = "nothing would enforce the network policies that isolate Ray's pods"
        yield Violation(f"{key}.{switch}", reason, '"true"', "remove the key")


def _role(key: str, add_on: AddOn, account: str) -> Iterator[Violation]:
    assert add_on.role  # noqa: S101 - the caller has checked
    unnamed = {"namespace": add_on.namespace_used, "role.service_account": add_on.service_account}
    for name, value in unnamed.items():
        if not value:
            reason = f"no documentation that this project knows names it for {add_on.name}, and its role needs it"
            fix = "copy it from `aws eks describe-addon-configuration`, or from the add-on's documentation"
            yield Violation(f"{key}.{name}", reason, "the name in Kubernetes", fix)
    for n, policy in enumerate(add_on.role.policies):
        if policy.split(":")[4] not in ("aws", account):
            reason, allowed = f"it is not of account {account}", f"policies of account {account} and of AWS"
            yield Violation(f"{key}.role.policies.{n}", reason, allowed, "copy it from `aws iam list-policies`")
