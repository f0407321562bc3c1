"""The CloudFormation models of IAM: roles, inline and managed policies, instance profiles, service-linked roles.

They replace moto's models. Those ignore updates of trust policies, managed policies and permissions, delete a role with
everything that is attached to it, and accept principals that do not exist.
"""

import json
import re
from typing import Any, Self

from embedded_account.context import Account
from embedded_account.errors import ResourceError
from embedded_account.services.iam.access import (
    INLINE_POLICY_CHARACTERS,
    MANAGED_POLICY_CHARACTERS,
    attach_managed_policy,
    backend_of,
    default_document,
    load_managed_policies,
    permissions_document,
    put_inline_policy,
    trust_document,
)
from embedded_account.services.iam.grants import record_policies
from embedded_account.services.shared.resource_model import (
    Declaration,
    ResourceModel,
    cloudformation_model,
    serve,
)
from embedded_account.tags import tag_list

_ROLE_NAME = re.compile(r"[\w+=,.@-]{1,64}", re.ASCII)
_RANDOM_SUFFIX = 13
"""The length of the suffix of a generated name: a hyphen and twelve characters.

CloudFormation shortens the part before the suffix if the name is too long.
"""
_VERSIONS_PER_POLICY = 5


def install(account: Account) -> None:
    """Make moto load AWS's managed policies, and let the models act on the account."""
    load_managed_policies()
    serve(account)


def _role_name(declaration: Declaration) -> str:
    given = declaration.properties.get("RoleName")
    name = given or declaration.name
    if not given and len(name) > 64:
        name = name[: 64 - _RANDOM_SUFFIX] + name[-_RANDOM_SUFFIX:]
    if not _ROLE_NAME.fullmatch(name):
        raise ResourceError(f"role name {name!r} is invalid. Allowed: 1 to 64 letters, digits and _+=,.@-")
    return str(name)


@cloudformation_model("AWS::IAM::Role", name_property="RoleName")
class RoleResource(ResourceModel):
    """A role with the inline policies and attached policies that the template declares."""

    KNOWN = frozenset(
        [
            "AssumeRolePolicyDocument",
            "Description",
            "ManagedPolicyArns",
            "MaxSessionDuration",
            "Path",
            "PermissionsBoundary",
            "Policies",
            "RoleName",
            "Tags",
        ]
    )
    MUTABLE = KNOWN - {"Path", "RoleName"}

    def __init__(self, account: Account, name: str) -> None:
        super().__init__(account, name)
        self._inline: set[str] = set()
        self._attached: set[str] = set()

    @property
    def _role(self) -> Any:
        return backend_of(self.account).get_role(self.physical_resource_id)

    @classmethod
    def create(cls, declaration: Declaration) -> Self:
        properties, name = declaration.properties, _role_name(declaration)
        backend_of(declaration.account).create_role(
            role_name=name,
            assume_role_policy_document=trust_document(declaration.account, properties["AssumeRolePolicyDocument"]),
            path=properties.get("Path", "/"),
            permissions_boundary=properties.get("PermissionsBoundary"),
            description=properties.get("Description", ""),
            tags=tag_list(declaration.tags()),
            max_session_duration=properties.get("MaxSessionDuration", 3600),
        )
        resource = cls(declaration.account, name)
        try:
            resource._apply_policies(properties)
        except Exception:
            resource.remove()
            raise
        return resource

    def update(self, declaration: Declaration) -> None:
        properties, role = declaration.properties, self._role
        role.assume_role_policy_document = trust_document(self.account, properties["AssumeRolePolicyDocument"])
        role.description = properties.get("Description", "")
        role.max_session_duration = properties.get("MaxSessionDuration", 3600)
        role.permissions_boundary_arn = properties.get("PermissionsBoundary")
        role.tags = tag_list(declaration.tags())
        self._apply_policies(properties)

    def remove(self) -> None:
        """Remove the template's policies from the role, then delete it; IAM refuses if others are attached."""
        self._apply_policies({})
        backend_of(self.account).delete_role(self.physical_resource_id)

    def live(self) -> dict[str, Any] | None:
        roles = {role.name: role for role in backend_of(self.account).get_roles()}
        if (role := roles.get(self.physical_resource_id)) is None:
            return None
        given = self.properties.get("ManagedPolicyArns", [])
        found = dict(role.managed_policies)
        # IAM has no order of its own: the template's first, then what others attached.
        arns = [arn for arn in given if arn in found] + sorted(found.keys() - set(given))
        return {
            # Cloud Control API reads the policy as an object, also where the template gives it as text.
            "AssumeRolePolicyDocument": json.loads(role.assume_role_policy_document),
            "ManagedPolicyArns": arns,
            "MaxSessionDuration": role.max_session_duration,
        }

    def attributes(self) -> dict[str, Any]:
        return {"Arn": self._role.arn, "RoleId": self._role.id}

    def _apply_policies(self, properties: dict[str, Any]) -> None:
        iam, role, name = backend_of(self.account), self._role, self.physical_resource_id
        wanted = {
            policy["PolicyName"]: permissions_document(policy["PolicyDocument"], limit=INLINE_POLICY_CHARACTERS)
            for policy in properties.get("Policies", [])
        }
        for policy_name in self._inline - set(wanted):
            role.policies.pop(policy_name, None)
        for policy_name, document in wanted.items():
            put_inline_policy(iam, name, policy_name, document)
        self._inline = set(wanted)
        arns = set(properties.get("ManagedPolicyArns", []))
        for arn in self._attached - arns:
            if arn in role.managed_policies:
                iam.detach_role_policy(arn, name)
        self._attached &= arns
        for arn in sorted(arns - self._attached):
            attach_managed_policy(iam, arn, name)
            self._attached.add(arn)
        record_policies(role, self.account.journal)


@cloudformation_model("AWS::IAM::Policy")
class InlinePolicyResource(ResourceModel):
    """One inline policy on one or more roles; no stack of the embedded account has IAM groups or users."""

    KNOWN = frozenset({"PolicyDocument", "PolicyName", "Roles"})
    MUTABLE = KNOWN

    def __init__(self, declaration: Declaration) -> None:
        super().__init__(declaration.account, declaration.name)
        self._policy_name: str = declaration.properties["PolicyName"]
        self._roles: set[str] = set()

    @classmethod
    def create(cls, declaration: Declaration) -> Self:
        resource = cls(declaration)
        resource._apply(declaration.properties)
        return resource

    def update(self, declaration: Declaration) -> None:
        if declaration.properties["PolicyName"] != self._policy_name:
            self.remove()
            self._policy_name = declaration.properties["PolicyName"]
        self._apply(declaration.properties)

    def remove(self) -> None:
        self._take_off(self._roles)

    def _apply(self, properties: dict[str, Any]) -> None:
        document = permissions_document(properties["PolicyDocument"], limit=INLINE_POLICY_CHARACTERS)
        roles = set(properties.get("Roles", []))
        if not roles:
            raise ResourceError("At least one of [Groups,Roles,Users] must be non-empty.")
        self._take_off(self._roles - roles)
        for role in sorted(roles):
            put_inline_policy(backend_of(self.account), role, self._policy_name, document)
            record_policies(backend_of(self.account).get_role(role), self.account.journal)
        self._roles = roles

    def _take_off(self, roles: set[str]) -> None:
        for role in backend_of(self.account).get_roles():
            if role.name in roles:
                role.policies.pop(self._policy_name, None)


@cloudformation_model("AWS::IAM::ManagedPolicy", name_property="ManagedPolicyName")
class ManagedPolicyResource(ResourceModel):
    """A managed policy of the account and its attachments to roles."""

    MUTABLE = frozenset({"PolicyDocument", "Roles"})
    KNOWN = MUTABLE | {"Description", "ManagedPolicyName", "Path"}

    def __init__(self, account: Account, arn: str) -> None:
        super().__init__(account, arn)
        self._roles: set[str] = set()

    @property
    def _policy(self) -> Any:
        return backend_of(self.account).get_policy(self.physical_resource_id)

    @classmethod
    def create(cls, declaration: Declaration) -> Self:
        properties = declaration.properties
        policy = backend_of(declaration.account).create_policy(
            description=properties.get("Description", ""),
            path=properties.get("Path", "/"),
            policy_document=permissions_document(properties["PolicyDocument"], limit=MANAGED_POLICY_CHARACTERS),
            policy_name=properties.get("ManagedPolicyName", declaration.name),
            tags=[],
        )
        resource = cls(declaration.account, policy.arn)
        try:
            resource._attach(properties)
        except Exception:
            resource.remove()
            raise
        return resource

    def update(self, declaration: Declaration) -> None:
        """Create a new default version. As in CloudFormation, the oldest of five versions is deleted first."""
        iam, arn, policy = backend_of(self.account), self.physical_resource_id, self._policy
        document = permissions_document(declaration.properties["PolicyDocument"], limit=MANAGED_POLICY_CHARACTERS)
        if document != default_document(policy):
            if len(policy.versions) == _VERSIONS_PER_POLICY:
                oldest = next(v for v in policy.versions if v.version_id != policy.default_version_id)
                iam.delete_policy_version(arn, oldest.version_id)
            iam.create_policy_version(arn, document, True)
        self._attach(declaration.properties)

    def remove(self) -> None:
        self._attach({})
        if self._policy.attachment_count:
            raise ResourceError("Cannot delete a policy attached to entities. (DeleteConflict)")
        del backend_of(self.account).managed_policies[self.physical_resource_id]

    def attributes(self) -> dict[str, Any]:
        policy = self._policy
        return {"PolicyArn": policy.arn, "PolicyId": policy.id, "AttachmentCount": policy.attachment_count}

    def _attach(self, properties: dict[str, Any]) -> None:
        iam, arn, roles = backend_of(self.account), self.physical_resource_id, set(properties.get("Roles", []))
        for role in iam.get_roles():
            if role.name in self._roles - roles and arn in role.managed_policies:
                iam.detach_role_policy(arn, role.name)
        self._roles &= roles
        for name in sorted(roles):
            attach_managed_policy(iam, arn, name)
            record_policies(iam.get_role(name), self.account.journal)
            self._roles.add(name)


@cloudformation_model("AWS::IAM::InstanceProfile", name_property="InstanceProfileName")
class InstanceProfileResource(ResourceModel):
    """An instance profile with its one role."""

    MUTABLE = frozenset({"Roles"})
    KNOWN = MUTABLE | {"InstanceProfileName", "Path"}

    @property
    def _profile(self) -> Any:
        return backend_of(self.account).get_instance_profile(self.physical_resource_id)

    @classmethod
    def create(cls, declaration: Declaration) -> Self:
        name = declaration.properties.get("InstanceProfileName", declaration.name)
        backend_of(declaration.account).create_instance_profile(
            name=name,
            path=declaration.properties.get("Path", "/"),
            role_names=declaration.properties["Roles"],
            tags=[],
        )
        return cls(declaration.account, name)

    def update(self, declaration: Declaration) -> None:
        iam = backend_of(self.account)
        self._profile.roles = [iam.get_role(name) for name in declaration.properties["Roles"]]

    def remove(self) -> None:
        backend_of(self.account).delete_instance_profile(self.physical_resource_id, ignore_attached_roles=True)

    def attributes(self) -> dict[str, Any]:
        return {"Arn": self._profile.arn}


@cloudformation_model("AWS::IAM::ServiceLinkedRole")
class ServiceLinkedRoleResource(ResourceModel):
    """A service-linked role: the role that a service owns in the account."""

    MUTABLE = frozenset()
    KNOWN = frozenset({"AWSServiceName", "CustomSuffix", "Description"})

    @classmethod
    def create(cls, declaration: Declaration) -> Self:
        properties = declaration.properties
        role = backend_of(declaration.account).create_service_linked_role(
            properties["AWSServiceName"], properties.get("Description", ""), properties.get("CustomSuffix", "")
        )
        return cls(declaration.account, role.name)

    def remove(self) -> None:
        backend_of(self.account).delete_service_linked_role(self.physical_resource_id)

    def attributes(self) -> dict[str, Any]:
        return {"RoleName": self.physical_resource_id}
