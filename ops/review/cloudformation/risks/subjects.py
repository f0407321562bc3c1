"""Find new subjects of permissions: users of the Kubernetes API, IAM users and keys, callers of functions."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ops.review.cloudformation.sides import Key, Risk, TemplateComparison
from ops.review.cloudformation.values import REFERENCE, elements, mapping, same, short, text
from ops.review.model import Danger

# Who gets what: another value is another right.
_SCOPES: Final = (
    *("AccessPolicies", "KubernetesGroups", "Username", "Action"),
    *("FunctionName", "FunctionUrlAuthType", "Namespace", "ServiceAccount", "TargetRoleArn"),
)
# New subjects or rights by their mere presence.
_NEW_SUBJECTS: Final = {
    "AWS::EKS::AccessEntry": "PrincipalArn",
    "AWS::EKS::PodIdentityAssociation": "RoleArn",
    "AWS::IAM::User": "UserName",
    "AWS::IAM::AccessKey": "UserName",
    "AWS::IAM::Group": "GroupName",
    "AWS::IAM::UserToGroupAddition": "GroupName",
    "AWS::IAM::SAMLProvider": "Name",
    "AWS::RAM::ResourceShare": "Name",
    "AWS::Lambda::Permission": "Principal",
}


def more_subjects(sides: TemplateComparison) -> Iterator[Risk]:
    """Yield which principals get access that they did not have, or more of it."""
    yield from _subjects(sides)
    yield from _authentication(sides)
    yield from _grafana(sides)


def _subjects(sides: TemplateComparison) -> Iterator[Risk]:
    clusters = {key for key, _ in sides.head.of_type("AWS::EKS::Cluster") if sides.existed(key)}
    for each in sides.differing(*_NEW_SUBJECTS):
        key, kind, before, after = each.key, each.kind, each.before, each.after
        subject = _NEW_SUBJECTS[kind]
        # The first access entries of a new cluster come with it.
        new_cluster = kind.startswith("AWS::EKS::") and not clusters and not _literal_cluster(after)
        service = kind == "AWS::Lambda::Permission" and str(after.get("Principal")).endswith(".amazonaws.com")
        another = not same(before.get(subject), after.get(subject))
        if (not new_cluster and not service) if each.new else another:
            what = f"{subject} {short(before.get(subject))} → {short(after.get(subject))}"
            policies = f", AccessPolicies {_access(after['AccessPolicies'])}" if after.get("AccessPolicies") else ""
            yield Risk(key, Danger.WIDER_PERMISSIONS, f"{what}{policies}", "Another principal gets access.")
        elif not each.new:
            yield from _more_access(key, before, after)


def _literal_cluster(properties: Mapping[str, Any]) -> bool:
    return not REFERENCE.fullmatch(str(properties.get("ClusterName")))


def _more_access(key: Key, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Risk]:
    for name in (*_SCOPES, "SourceArn", "SourceAccount"):
        old, new = ([text(each) for each in elements(side.get(name))] for side in (before, after))
        dropped = name.startswith("Source") and old and not new
        if dropped or (set(new) - set(old) and (old or not name.startswith("Source"))):
            what = f"{name} {_access(before.get(name))} → {_access(after.get(name))}"
            yield Risk(key, Danger.WIDER_PERMISSIONS, what, "The principal may do more.")


def _access(value: object) -> str:
    """Return access policies by name and scope, other values as they are."""
    if isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):
        shown = [
            f"{str(each.get('PolicyArn')).rpartition('/')[2]} ({', '.join(_scope(each.get('AccessScope')))})"
            for each in value
        ]
        return short(", ".join(shown))
    return short(value)


def _scope(value: object) -> list[str]:
    scope = mapping(value)
    return [str(each) for each in elements(scope.get("Namespaces", scope.get("Type")))]


def _grafana(sides: TemplateComparison) -> Iterator[Risk]:
    """Yield workspaces of Grafana that whole organizations reach, or that other people may sign in to."""
    for each in sides.differing("AWS::Grafana::Workspace"):
        before, after = each.before, each.after
        account, permission = (str(after.get(name)) for name in ("AccountAccessType", "PermissionType"))
        if account != "CURRENT_ACCOUNT" and not same(before.get("AccountAccessType"), after.get("AccountAccessType")):
            what = f"AccountAccessType {short(before.get('AccountAccessType'))} → {account}"
            yield Risk(each.key, Danger.WIDER_PERMISSIONS, what, "It reaches data of other accounts.")
        if each.new:
            continue
        if permission != "CUSTOMER_MANAGED" and not same(before.get("PermissionType"), after.get("PermissionType")):
            what = f"PermissionType {short(before.get('PermissionType'))} → {permission}"
            yield Risk(each.key, Danger.WIDER_PERMISSIONS, what, "Grafana makes the rights of its role itself.")
        old, new = (side.get("AuthenticationProviders") for side in (before, after))
        if {text(one) for one in elements(new)} - {text(one) for one in elements(old)}:
            what = f"AuthenticationProviders {short(old)} → {short(new)}"
            yield Risk(each.key, Danger.WIDER_PERMISSIONS, what, "Other people may sign in.")


def _authentication(sides: TemplateComparison) -> Iterator[Risk]:
    for each in sides.differing("AWS::EKS::Cluster"):
        old, new = (mapping(side.get("AccessConfig")).get("AuthenticationMode") for side in (each.before, each.after))
        if old == "API" and new != "API":
            what = f"AuthenticationMode {short(old)} → {short(new)}"
            why = "A ConfigMap in the cluster can then grant access too."
            yield Risk(each.key, Danger.WIDER_PERMISSIONS, what, why)
    for each in sides.differing("AWS::IAM::OIDCProvider"):
        old, new = ({str(one) for one in elements(side.get("ClientIdList"))} for side in (each.before, each.after))
        if not each.new and new - old:
            what = f"ClientIdList + {short(sorted(new - old))}"
            yield Risk(each.key, Danger.WIDER_PERMISSIONS, what, "Tokens for other audiences are accepted.")
