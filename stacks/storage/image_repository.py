"""The ECR repository of the Ray image."""

from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_kms as kms
from constructs import Construct

from stacks.shared.checkov_skips import explain
from stacks.storage.removal import data_removal_policy

# Mutable tags, those of the image build's layer cache; an image's own tag is a hash of its build context.
CACHE_TAGS: Final = "cache*"
_MOVING_TAGS: Final = {
    "CKV_AWS_51": "Only the tags of the build cache can move, an exclusion that this policy does not know",
}
_NO_KEY: Final = {
    "CKV_AWS_136": "Images hold no secrets, and ECR encrypts with its own key; one of ours would outlive the stack",
}


class ImageRepository(Construct):
    """A repository that scans images on push; its tags are immutable, except those of the build cache."""

    repository: ecr.IRepository

    def __init__(self, scope: Construct, id: str, *, name: str, protect: bool, key: kms.IKey | None = None) -> None:
        super().__init__(scope, id)
        self.repository = ecr.Repository(
            self,
            "Resource",
            repository_name=name,
            encryption=ecr.RepositoryEncryption.KMS if key else None,
            encryption_key=key,
            image_scan_on_push=True,
            image_tag_mutability=ecr.TagMutability.IMMUTABLE_WITH_EXCLUSION,
            image_tag_mutability_exclusion_filters=[ecr.ImageTagMutabilityExclusionFilter.wildcard(CACHE_TAGS)],
            lifecycle_rules=[
                ecr.LifecycleRule(
                    description="Layers that a moved cache tag left",
                    tag_status=ecr.TagStatus.UNTAGGED,
                    max_image_age=Duration.days(14),
                )
            ],
            removal_policy=data_removal_policy(protect=protect),
            empty_on_delete=not protect,
        )
        explain(self.repository, _MOVING_TAGS if key else _MOVING_TAGS | _NO_KEY)
