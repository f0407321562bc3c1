"""SNS: CloudFormation's models of topics, subscriptions and topic policies. No message leaves the account."""

import json
from typing import Any

from embedded_account.context import Account
from embedded_account.services.shared.api_model import ApiModel, Properties
from embedded_account.services.shared.resource_model import cloudformation_model, serve

_TOPIC_ATTRIBUTES = ("DisplayName", "KmsMasterKeyId", "SignatureVersion", "TracingConfig")


def install(account: Account) -> None:
    """Let the models act on this account."""
    serve(account)


@cloudformation_model("AWS::SNS::Topic", name_property="TopicName")
class Topic(ApiModel):
    """A standard topic; `Ref` is its ARN."""

    SERVICE = "sns"
    MUTABLE = frozenset({"DisplayName", "KmsMasterKeyId", "Tags"})
    KNOWN = MUTABLE | {*_TOPIC_ATTRIBUTES, "TopicName"}

    def make(self) -> str:
        response = self.api.create_topic(
            Name=self.declaration.name,
            Attributes=self.only(*_TOPIC_ATTRIBUTES),
            Tags=self.properties.get("Tags", []),
        )
        return str(response["TopicArn"])

    def change(self, old: Properties, changed: frozenset[str]) -> None:
        arn = self.physical_resource_id
        for name in sorted(changed - {"Tags"}):
            self.api.set_topic_attributes(
                TopicArn=arn, AttributeName=name, AttributeValue=self.properties.get(name, "")
            )
        if "Tags" in changed:
            after = self.properties.get("Tags", [])
            if gone := {tag["Key"] for tag in old.get("Tags", [])} - {tag["Key"] for tag in after}:
                self.api.untag_resource(ResourceArn=arn, TagKeys=sorted(gone))
            if after:
                self.api.tag_resource(ResourceArn=arn, Tags=after)

    def unmake(self) -> None:
        self.api.delete_topic(TopicArn=self.physical_resource_id)

    def attributes(self) -> dict[str, Any]:
        arn = self.physical_resource_id
        return {"TopicArn": arn, "TopicName": arn.rsplit(":", 1)[1]}


@cloudformation_model("AWS::SNS::Subscription")
class Subscription(ApiModel):
    """A subscription. On AWS an e-mail subscription waits for confirmation; here it is confirmed at once."""

    SERVICE = "sns"
    MUTABLE = frozenset()
    KNOWN = frozenset({"Endpoint", "Protocol", "TopicArn"})

    def make(self) -> str:
        return str(self.api.subscribe(ReturnSubscriptionArn=True, **self.properties)["SubscriptionArn"])

    def unmake(self) -> None:
        self.api.unsubscribe(SubscriptionArn=self.physical_resource_id)

    def attributes(self) -> dict[str, Any]:
        return {"Arn": self.physical_resource_id}


@cloudformation_model("AWS::SNS::TopicPolicy")
class TopicPolicy(ApiModel):
    """The policy of one or more topics. Without it a topic has SNS's default policy, which admits only the owner."""

    SERVICE = "sns"
    KNOWN = frozenset({"PolicyDocument", "Topics"})
    MUTABLE = KNOWN

    def make(self) -> str:
        self._put(self.properties["Topics"], self.properties["PolicyDocument"])
        return self.declaration.name

    def change(self, old: Properties, changed: frozenset[str]) -> None:
        del changed
        self._reset([topic for topic in old["Topics"] if topic not in self.properties["Topics"]])
        self._put(self.properties["Topics"], self.properties["PolicyDocument"])

    def unmake(self) -> None:
        existing = {topic["TopicArn"] for topic in self.api.list_topics()["Topics"]}
        self._reset([topic for topic in self.properties["Topics"] if topic in existing])

    def attributes(self) -> dict[str, Any]:
        return {"Id": self.physical_resource_id}

    def _put(self, topics: list[str], document: Properties) -> None:
        for topic in topics:
            self.api.set_topic_attributes(TopicArn=topic, AttributeName="Policy", AttributeValue=json.dumps(document))

    def _reset(self, topics: list[str]) -> None:
        for topic in topics:
            self._put([topic], _default_policy(topic, self.account.account_id))


def _default_policy(topic: str, account_id: str) -> Properties:
    actions = ("Publish", "Subscribe", "SetTopicAttributes", "GetTopicAttributes", "DeleteTopic")
    owner = {
        "Sid": "__default_statement_ID",
        "Effect": "Allow",
        "Principal": {"AWS": "*"},
        "Action": [f"SNS:{action}" for action in actions],
        "Resource": topic,
        "Condition": {"StringEquals": {"AWS:SourceOwner": account_id}},
    }
    return {"Version": "2008-10-17", "Id": "__default_policy_ID", "Statement": [owner]}
