"""List test cases for updates: for each resource type its properties, supported changes and refused changes.

A type can have several cases; their keys add a few words to the type. A value that begins with `$` refers to an
attribute of `Surroundings` (tests/account/surroundings.py), such as `$vpc`.
"""

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Case:
    """A resource and the changes to try on it. Paths of properties have the form `LaunchTemplate.Version`.

    Attributes:
        properties: The properties of the resource.
        changes: New values that an update applies, by path.
        refused: New values that an update refuses, by path.
        later: Paths whose change shows only when the resource is deleted; separate tests cover them.
        defaults: Paths whose value here is the service's default, so removing them changes nothing.
        instead: For a property, the property that it replaces.
    """

    properties: dict[str, Any]
    changes: dict[str, Any] = field(default_factory=dict)
    refused: dict[str, Any] = field(default_factory=dict)
    later: frozenset[str] = frozenset()
    defaults: frozenset[str] = frozenset()
    instead: dict[str, str] = field(default_factory=dict)

    def tried(self) -> set[str]:
        """Return the paths whose change is tested, by this case or by a separate test."""
        return {*self.changes, *self.refused, *self.later}


def tags(value: str) -> list[dict[str, str]]:
    return [{"Key": "Name", "Value": value}]


def policy(action: str, **more: Any) -> dict[str, Any]:
    statement = {"Effect": "Allow", "Action": action, "Resource": "*", **more}
    return {"Version": "2012-10-17", "Statement": [statement]}


def trust(service: str) -> dict[str, Any]:
    """Return a trust policy for one service."""
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    return {"Version": "2012-10-17", "Statement": [statement]}


def lifecycle(days: int) -> str:
    old = {"tagStatus": "untagged", "countType": "sinceImagePushed", "countUnit": "days", "countNumber": days}
    return json.dumps({"rules": [{"rulePriority": 1, "selection": old, "action": {"type": "expire"}}]})


def dashboard(text: str) -> str:
    return json.dumps({"widgets": [{"type": "text", "properties": {"markdown": text}}]})


ANYONE = {"Principal": {"AWS": "*"}}
EGRESS = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "CidrIp": "0.0.0.0/0"}
MACHINE = '{"StartAt": "A", "States": {"A": {"Type": "Succeed"}}}'
OTHER_MACHINE = '{"StartAt": "B", "States": {"B": {"Type": "Succeed"}}}'
FILTER = {
    "ImageTagMutabilityExclusionFilterType": "WILDCARD",
    "ImageTagMutabilityExclusionFilterValue": "cache*",
}
CLUSTER_ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"

CASES: dict[str, Case] = {
    "AWS::APS::Workspace": Case(
        {"Alias": "a", "Tags": tags("a")},
        {"Alias": "b", "Tags": tags("b")},
        {"KmsKeyArn": "$key"},
    ),
    "AWS::Budgets::Budget": Case(
        {
            "Budget": {
                "BudgetLimit": {"Amount": 100, "Unit": "USD"},
                "BudgetName": "a",
                "BudgetType": "COST",
                "CostFilters": {"TagKeyValue": ["user:environment$a"]},
                "TimeUnit": "MONTHLY",
            },
            "NotificationsWithSubscribers": [
                {
                    "Notification": {
                        "ComparisonOperator": "GREATER_THAN",
                        "NotificationType": "ACTUAL",
                        "Threshold": 80,
                        "ThresholdType": "PERCENTAGE",
                    },
                    "Subscribers": [{"SubscriptionType": "SNS", "Address": "$budget_topic"}],
                }
            ],
            "ResourceTags": tags("a"),
        },
        {
            "Budget.BudgetLimit": {"Amount": 200, "Unit": "USD"},
            "Budget.CostFilters": {"TagKeyValue": ["user:environment$b"]},
            "ResourceTags": tags("b"),
        },
        {"Budget.BudgetType": "USAGE", "Budget.TimeUnit": "DAILY"},
    ),
    "AWS::CloudWatch::Alarm": Case(
        {
            "AlarmName": "a",
            "AlarmDescription": "a",
            "ActionsEnabled": True,
            "AlarmActions": ["$topic"],
            "ComparisonOperator": "GreaterThanThreshold",
            "Dimensions": [{"Name": "ClusterName", "Value": "a"}],
            "EvaluationPeriods": 1,
            "InsufficientDataActions": ["$topic"],
            "MetricName": "a",
            "Namespace": "a",
            "OKActions": ["$topic"],
            "Period": 60,
            "Statistic": "Sum",
            "Tags": tags("a"),
            "Threshold": 1.0,
            "TreatMissingData": "breaching",
        },
        {
            "ActionsEnabled": False,
            "AlarmActions": ["$other_topic"],
            "AlarmDescription": "b",
            "ComparisonOperator": "LessThanThreshold",
            "Dimensions": [{"Name": "ClusterName", "Value": "b"}],
            "EvaluationPeriods": 2,
            "InsufficientDataActions": ["$other_topic"],
            "MetricName": "b",
            "Namespace": "b",
            "OKActions": ["$other_topic"],
            "Period": 300,
            "Statistic": "Maximum",
            "Tags": tags("b"),
            "Threshold": 2.0,
            "TreatMissingData": "notBreaching",
        },
        {"DatapointsToAlarm": 1},
        defaults=frozenset({"ActionsEnabled"}),
    ),
    "AWS::CloudWatch::Dashboard": Case(
        {"DashboardName": "a", "DashboardBody": dashboard("a"), "Tags": tags("a")},
        {"DashboardBody": dashboard("b"), "Tags": tags("b")},
        {"DashboardName": "b"},
    ),
    "AWS::EC2::EIP": Case({"Domain": "vpc"}, {"Tags": tags("b")}),
    "AWS::EC2::FlowLog": Case(
        {
            "ResourceId": "$vpc",
            "ResourceType": "VPC",
            "TrafficType": "REJECT",
            "LogDestinationType": "cloud-watch-logs",
            "LogGroupName": "$log_group",
            "DeliverLogsPermissionArn": "$flow_role",
            "Tags": tags("a"),
        },
        {"Tags": tags("b")},
    ),
    "AWS::EC2::InternetGateway": Case({"Tags": tags("a")}, {"Tags": tags("b")}),
    "AWS::EC2::LaunchTemplate": Case(
        {
            "LaunchTemplateData": {
                "BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 100}}],
                "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
                "SecurityGroupIds": ["$group"],
                "TagSpecifications": [{"ResourceType": "instance", "Tags": tags("a")}],
            }
        },
        {
            "LaunchTemplateData.BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 200}}],
            "LaunchTemplateData.MetadataOptions.HttpPutResponseHopLimit": 2,
            "LaunchTemplateData.MetadataOptions.HttpTokens": "optional",
            "LaunchTemplateData.SecurityGroupIds": ["$other_group"],
            "LaunchTemplateData.TagSpecifications": [{"ResourceType": "instance", "Tags": tags("b")}],
            "VersionDescription": "b",
        },
        {"TagSpecifications": [{"ResourceType": "launch-template", "Tags": tags("b")}]},
    ),
    "AWS::EC2::NatGateway": Case(
        {"SubnetId": "$subnet", "ConnectivityType": "private", "Tags": tags("a")}, {"Tags": tags("b")}
    ),
    "AWS::EC2::Route": Case(
        {"RouteTableId": "$route_table", "DestinationCidrBlock": "0.0.0.0/0", "NatGatewayId": "$nat"},
        {"GatewayId": "$gateway", "NatGatewayId": "$other_nat"},
        {"NetworkInterfaceId": "eni-0"},
        instead={"GatewayId": "NatGatewayId"},
    ),
    "AWS::EC2::RouteTable": Case({"VpcId": "$vpc", "Tags": tags("a")}, {"Tags": tags("b")}),
    "AWS::EC2::SecurityGroup": Case(
        {
            "GroupDescription": "g",
            "VpcId": "$vpc",
            "SecurityGroupEgress": [{**EGRESS, "Description": "out"}],
            "SecurityGroupIngress": [{**EGRESS, "Description": "in"}],
        },
        {
            "SecurityGroupEgress": [{**EGRESS, "CidrIp": "10.0.0.0/8"}],
            "SecurityGroupIngress": [{**EGRESS, "CidrIp": "10.0.0.0/8"}],
            "Tags": tags("b"),
        },
    ),
    "AWS::EC2::SecurityGroupEgress": Case(
        {"GroupId": "$group", **EGRESS, "Description": "a"}, {"Description": "b"}, {"FromPort": 80}
    ),
    "AWS::EC2::SecurityGroupIngress": Case(
        {"GroupId": "$group", **EGRESS, "Description": "a"},
        {"Description": "b"},
    ),
    "AWS::EC2::SecurityGroupIngress from a group": Case(
        {"GroupId": "$group", "IpProtocol": "-1", "SourceSecurityGroupId": "$other_group", "Description": "a"},
        refused={"Description": "b"},
    ),
    "AWS::EC2::Subnet": Case(
        {
            "VpcId": "$vpc",
            "CidrBlock": "10.0.100.0/24",
            "AvailabilityZoneId": "usw2-az1",
            "MapPublicIpOnLaunch": True,
            "Tags": tags("a"),
        },
        {"MapPublicIpOnLaunch": False, "Tags": tags("b")},
        {"AssignIpv6AddressOnCreation": True},
    ),
    "AWS::EC2::SubnetRouteTableAssociation": Case(
        {"RouteTableId": "$route_table", "SubnetId": "$subnet"}, refused={"SubnetId": "$other_subnet"}
    ),
    "AWS::EC2::VPC": Case(
        {"CidrBlock": "10.9.0.0/16", "EnableDnsHostnames": True, "EnableDnsSupport": True, "Tags": tags("a")},
        {"EnableDnsHostnames": False, "EnableDnsSupport": False, "Tags": tags("b")},
        {"InstanceTenancy": "dedicated"},
        defaults=frozenset({"EnableDnsSupport"}),
    ),
    "AWS::EC2::VPCCidrBlock": Case(
        {"VpcId": "$vpc", "CidrBlock": "10.77.0.0/16"}, refused={"CidrBlock": "10.78.0.0/16"}
    ),
    "AWS::EC2::VPCEndpoint": Case(
        {
            "ServiceName": "com.amazonaws.us-west-2.s3",
            "VpcEndpointType": "Gateway",
            "VpcId": "$vpc",
            "RouteTableIds": ["$route_table"],
            "PolicyDocument": policy("s3:Get*", **ANYONE),
            "Tags": tags("a"),
        },
        {
            "PolicyDocument": policy("s3:Put*", **ANYONE),
            "RouteTableIds": ["$other_route_table"],
            "Tags": tags("b"),
        },
        {"PrivateDnsEnabled": True},
    ),
    "AWS::EC2::VPCEndpoint of an interface": Case(
        {
            "ServiceName": "com.amazonaws.us-west-2.sts",
            "VpcEndpointType": "Interface",
            "VpcId": "$vpc",
            "SecurityGroupIds": ["$group"],
            "SubnetIds": ["$subnet"],
            "Tags": tags("a"),
        },
        {"SecurityGroupIds": ["$other_group"], "SubnetIds": ["$other_subnet"], "Tags": tags("b")},
        {"PrivateDnsEnabled": True},
    ),
    "AWS::EC2::VPCGatewayAttachment": Case(
        {"VpcId": "$empty_vpc", "InternetGatewayId": "$free_gateway"}, refused={"InternetGatewayId": "igw-0"}
    ),
    "AWS::ECR::Repository": Case(
        {
            "RepositoryName": "images",
            "EmptyOnDelete": True,
            "ImageScanningConfiguration": {"ScanOnPush": True},
            "ImageTagMutability": "IMMUTABLE_WITH_EXCLUSION",
            "ImageTagMutabilityExclusionFilters": [FILTER],
            "LifecyclePolicy": {"LifecyclePolicyText": lifecycle(30)},
            "Tags": tags("a"),
        },
        {
            "ImageScanningConfiguration.ScanOnPush": False,
            "ImageTagMutability": "MUTABLE_WITH_EXCLUSION",
            "ImageTagMutabilityExclusionFilters": [{**FILTER, "ImageTagMutabilityExclusionFilterValue": "tmp*"}],
            "LifecyclePolicy.LifecyclePolicyText": lifecycle(31),
            "RepositoryPolicyText": policy("ecr:*", **ANYONE),
            "Tags": tags("b"),
        },
        {"EncryptionConfiguration": {"EncryptionType": "KMS"}},
        frozenset({"EmptyOnDelete"}),
    ),
    "AWS::EKS::AccessEntry": Case(
        {
            "ClusterName": "$cluster",
            "PrincipalArn": "$member",
            "KubernetesGroups": ["submitters"],
            "AccessPolicies": [{"PolicyArn": CLUSTER_ADMIN, "AccessScope": {"Type": "cluster"}}],
            "Username": "ann",
            "Tags": tags("a"),
        },
        {
            "AccessPolicies": [
                {"PolicyArn": CLUSTER_ADMIN, "AccessScope": {"Type": "namespace", "Namespaces": ["ray"]}}
            ],
            "KubernetesGroups": ["readers"],
            "Username": "bob",
            "Tags": tags("b"),
        },
        {"Type": "EC2_LINUX"},
    ),
    "AWS::EKS::Addon": Case(
        {
            "AddonName": "coredns",
            "ClusterName": "$cluster",
            "ConfigurationValues": '{"replicaCount": 1}',
            "ResolveConflicts": "OVERWRITE",
            "AddonVersion": "v1.11.1-eksbuild.1",
            "Tags": tags("a"),
        },
        {
            "AddonVersion": "v1.11.2-eksbuild.1",
            "ConfigurationValues": '{"replicaCount": 2}',
            "ServiceAccountRoleArn": "$member",
            "Tags": tags("b"),
        },
        {"ResolveConflicts": "NONE"},
        frozenset({"PreserveOnDelete"}),
    ),
    "AWS::EKS::Cluster": Case(
        {
            "Name": "c",
            "Version": "1.34",
            "RoleArn": "$cluster_role",
            "AccessConfig": {"AuthenticationMode": "API", "BootstrapClusterCreatorAdminPermissions": False},
            "ComputeConfig": {"Enabled": False},
            "KubernetesNetworkConfig": {"ElasticLoadBalancing": {"Enabled": False}, "IpFamily": "ipv4"},
            "Logging": {"ClusterLogging": {"EnabledTypes": [{"Type": "api"}]}},
            "ResourcesVpcConfig": {
                "EndpointPrivateAccess": True,
                "EndpointPublicAccess": True,
                "PublicAccessCidrs": ["198.51.100.0/24"],
                "SecurityGroupIds": ["$group"],
                "SubnetIds": ["$subnet", "$other_subnet"],
            },
            "StorageConfig": {"BlockStorage": {"Enabled": False}},
            "UpgradePolicy": {"SupportType": "STANDARD"},
            "DeletionProtection": True,
            "Tags": tags("a"),
        },
        {
            "DeletionProtection": False,
            "Logging.ClusterLogging.EnabledTypes": [{"Type": "audit"}],
            "ResourcesVpcConfig.EndpointPrivateAccess": False,
            "ResourcesVpcConfig.EndpointPublicAccess": False,
            "ResourcesVpcConfig.PublicAccessCidrs": ["203.0.113.0/24"],
            "ResourcesVpcConfig.SecurityGroupIds": ["$other_group"],
            "Tags": tags("b"),
            "UpgradePolicy.SupportType": "EXTENDED",
            "Version": "1.35",
        },
        {
            "AccessConfig.AuthenticationMode": "API_AND_CONFIG_MAP",
            "ComputeConfig.Enabled": True,
            "EncryptionConfig": [{"Resources": ["secrets"], "Provider": {"KeyArn": "$key"}}],
            "KubernetesNetworkConfig.ElasticLoadBalancing.Enabled": True,
            "StorageConfig.BlockStorage.Enabled": True,
        },
    ),
    "AWS::EKS::Nodegroup": Case(
        {
            "ClusterName": "$cluster",
            "NodeRole": "$node_role",
            "Subnets": ["$subnet", "$other_subnet"],
            "AmiType": "AL2023_x86_64_STANDARD",
            "InstanceTypes": ["m5.large"],
            "Labels": {"role": "system"},
            "LaunchTemplate": {"Id": "$launch_template", "Version": "1"},
            "ScalingConfig": {"MinSize": 1, "MaxSize": 3, "DesiredSize": 2},
            "UpdateConfig": {"MaxUnavailable": 1},
            "Version": "1.34",
            "ReleaseVersion": "1.34.1-20260101",
            "Tags": {"Name": "a"},
        },
        {
            "Labels": {"role": "other"},
            "LaunchTemplate.Version": "2",
            "ReleaseVersion": "1.34.2-20260201",
            "ScalingConfig.DesiredSize": 3,
            "ScalingConfig.MaxSize": 4,
            "ScalingConfig.MinSize": 2,
            "Tags": {"Name": "b"},
            "Taints": [{"Key": "dedicated", "Value": "system", "Effect": "NO_SCHEDULE"}],
            "UpdateConfig.MaxUnavailable": 2,
            "Version": "1.35",
        },
        {"ForceUpdateEnabled": True, "LaunchTemplate.Id": "$other_launch_template"},
    ),
    "AWS::EKS::PodIdentityAssociation": Case(
        {
            "ClusterName": "$cluster",
            "Namespace": "ray",
            "ServiceAccount": "ray",
            "RoleArn": "$pod_role",
            "Tags": tags("a"),
        },
        {"RoleArn": "$other_pod_role", "Tags": tags("b")},
    ),
    "AWS::Events::Rule": Case(
        {
            "Description": "a",
            "EventPattern": {"source": ["aws.sagemaker"]},
            "State": "ENABLED",
            "Tags": tags("a"),
            "Targets": [{"Id": "topic", "Arn": "$topic"}],
        },
        {
            "Description": "b",
            "EventPattern": {"source": ["aws.eks"]},
            "State": "DISABLED",
            "Tags": tags("b"),
            "Targets": [{"Id": "topic", "Arn": "$other_topic"}],
        },
        {"ScheduleExpression": "rate(1 hour)"},
        defaults=frozenset({"State"}),
    ),
    "AWS::FSx::DataRepositoryAssociation": Case(
        {
            "FileSystemId": "$file_system",
            "FileSystemPath": "/data",
            "DataRepositoryPath": "$repository",
            "BatchImportMetaDataOnCreate": True,
            "S3": {"AutoExportPolicy": {"Events": ["NEW"]}, "AutoImportPolicy": {"Events": ["NEW"]}},
            "ImportedFileChunkSize": 1024,
            "Tags": tags("a"),
        },
        {
            "ImportedFileChunkSize": 2048,
            "S3.AutoExportPolicy.Events": ["DELETED"],
            "S3.AutoImportPolicy.Events": ["DELETED"],
            "Tags": tags("b"),
        },
    ),
    "AWS::FSx::FileSystem": Case(
        {
            "FileSystemType": "LUSTRE",
            "FileSystemTypeVersion": "2.15",
            "StorageCapacity": 1200,
            "StorageType": "SSD",
            "SubnetIds": ["$subnet"],
            "SecurityGroupIds": ["$lustre_group"],
            "LustreConfiguration": {
                "DeploymentType": "PERSISTENT_2",
                "PerUnitStorageThroughput": 250,
                "DataCompressionType": "LZ4",
            },
            "Tags": tags("a"),
        },
        {"LustreConfiguration.DataCompressionType": "NONE", "StorageCapacity": 2400, "Tags": tags("b")},
        {"StorageType": "HDD"},
    ),
    "AWS::IAM::InstanceProfile": Case({"Roles": ["$nodes"]}, {"Roles": ["$people"]}),
    "AWS::IAM::ManagedPolicy": Case(
        {"PolicyDocument": policy("s3:Get*"), "Roles": ["$nodes"]},
        {"PolicyDocument": policy("s3:Put*"), "Roles": ["$people"]},
    ),
    "AWS::IAM::OIDCProvider": Case(
        {"Url": "https://oidc.example.com/id/A", "ClientIdList": ["sts.amazonaws.com"], "Tags": tags("a")},
        {"ClientIdList": ["other"], "Tags": tags("b"), "ThumbprintList": ["a" * 40]},
    ),
    "AWS::IAM::Policy": Case(
        {"PolicyName": "p", "PolicyDocument": policy("s3:Get*"), "Roles": ["$nodes"]},
        {"PolicyDocument": policy("s3:Put*"), "PolicyName": "q", "Roles": ["$people"]},
    ),
    "AWS::IAM::Role": Case(
        {
            "AssumeRolePolicyDocument": trust("ec2.amazonaws.com"),
            "Description": "a",
            "ManagedPolicyArns": ["arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"],
            "MaxSessionDuration": 7200,
            "Policies": [{"PolicyName": "p", "PolicyDocument": policy("s3:Get*")}],
            "Tags": tags("a"),
        },
        {
            "AssumeRolePolicyDocument": trust("lambda.amazonaws.com"),
            "Description": "b",
            "ManagedPolicyArns": ["arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"],
            "MaxSessionDuration": 3600,
            "PermissionsBoundary": "arn:aws:iam::aws:policy/ReadOnlyAccess",
            "Policies": [{"PolicyName": "p", "PolicyDocument": policy("s3:Put*")}],
            "Tags": tags("b"),
        },
    ),
    "AWS::IAM::ServiceLinkedRole": Case(
        {"AWSServiceName": "autoscaling.amazonaws.com", "Description": "a"}, refused={"Description": "b"}
    ),
    "AWS::KMS::Alias": Case({"AliasName": "alias/a", "TargetKeyId": "$key_id"}, {"TargetKeyId": "$other_key_id"}),
    "AWS::KMS::Key": Case(
        {
            "Description": "a",
            "EnableKeyRotation": True,
            "KeyPolicy": policy("kms:*", **ANYONE),
            "PendingWindowInDays": 30,
            "Tags": tags("a"),
        },
        {
            "Description": "b",
            "Enabled": False,
            "EnableKeyRotation": False,
            "KeyPolicy": policy("kms:Put*", **ANYONE),
            "Tags": tags("b"),
        },
        later=frozenset({"PendingWindowInDays"}),
    ),
    "AWS::Lambda::EventInvokeConfig": Case(
        {"FunctionName": "$function", "Qualifier": "$LATEST", "MaximumRetryAttempts": 1},
        {"MaximumEventAgeInSeconds": 120, "MaximumRetryAttempts": 0},
        {"DestinationConfig": {"OnFailure": {"Destination": "$topic"}}},
    ),
    "AWS::Lambda::Function": Case(
        {
            "Architectures": ["x86_64"],
            "Code": "$code",
            "Description": "a",
            "Environment": {"Variables": {"AB": "1"}},
            "Handler": "main.handler",
            "LoggingConfig": {"ApplicationLogLevel": "INFO", "LogFormat": "JSON", "LogGroup": "$log_group"},
            "MemorySize": 256,
            "Role": "$function_role",
            "Runtime": "python3.13",
            "Timeout": 60,
            "VpcConfig": {"SecurityGroupIds": ["$group"], "SubnetIds": ["$subnet"]},
            "Tags": tags("a"),
        },
        {
            "Architectures": ["arm64"],
            "Code": "$other_code",
            "Description": "b",
            "Environment.Variables": {"AB": "2"},
            "EphemeralStorage": {"Size": 1024},
            "Handler": "main.other",
            "Layers": ["$layer"],
            "LoggingConfig.LogGroup": "/other",
            "MemorySize": 512,
            "Role": "$other_function_role",
            "Runtime": "python3.12",
            "Tags": tags("b"),
            "Timeout": 61,
            "TracingConfig": {"Mode": "Active"},
            "VpcConfig.SecurityGroupIds": ["$other_group"],
            "VpcConfig.SubnetIds": ["$other_subnet"],
        },
        {"LoggingConfig.ApplicationLogLevel": "DEBUG", "LoggingConfig.LogFormat": "Text"},
        defaults=frozenset({"Architectures"}),
    ),
    "AWS::Lambda::LayerVersion": Case({"Content": "$code"}, refused={"Description": "b"}),
    "AWS::Lambda::Permission": Case(
        {"Action": "lambda:InvokeFunction", "FunctionName": "$function", "Principal": "events.amazonaws.com"},
        refused={"Principal": "s3.amazonaws.com"},
    ),
    "AWS::Logs::LogGroup": Case(
        {"LogGroupName": "g", "RetentionInDays": 7, "KmsKeyId": "$key", "Tags": tags("a")},
        {"RetentionInDays": 14, "KmsKeyId": "$other_key", "Tags": tags("b")},
    ),
    "AWS::EC2::PrefixList": Case(
        {
            "AddressFamily": "IPv4",
            "Entries": [{"Cidr": "203.0.113.0/24"}],
            "MaxEntries": 3,
            "PrefixListName": "office",
            "Tags": tags("a"),
        },
        {"Entries": [{"Cidr": "198.51.100.0/24", "Description": "vpn"}], "Tags": tags("b")},
        {"AddressFamily": "IPv6", "MaxEntries": 4, "PrefixListName": "vpn"},
    ),
    "AWS::Grafana::Workspace": Case(
        {
            "AccountAccessType": "CURRENT_ACCOUNT",
            "AuthenticationProviders": ["AWS_SSO"],
            "Description": "a",
            "Name": "a",
            "NetworkAccessControl": {"PrefixListIds": ["$prefix_list"]},
            "PermissionType": "CUSTOMER_MANAGED",
            "RoleArn": "$grafana_role",
            "Tags": tags("a"),
        },
        {
            "Description": "b",
            "Name": "b",
            "NetworkAccessControl": {"PrefixListIds": ["$other_prefix_list"]},
            "RoleArn": "$other_grafana_role",
            "Tags": tags("b"),
        },
        {
            "AccountAccessType": "ORGANIZATION",
            "AuthenticationProviders": ["SAML"],
            "DataSources": ["PROMETHEUS"],
            "PermissionType": "SERVICE_MANAGED",
        },
    ),
    "AWS::SageMaker::MlflowTrackingServer": Case(
        {
            "TrackingServerName": "runs",
            "ArtifactStoreUri": "s3://data/mlflow",
            "RoleArn": "$sagemaker_role",
            "AutomaticModelRegistration": False,
            "Tags": tags("a"),
        },
        {
            "ArtifactStoreUri": "s3://other/mlflow",
            "AutomaticModelRegistration": True,
            "TrackingServerSize": "Medium",
            "WeeklyMaintenanceWindowStart": "Tue:03:30",
            "Tags": tags("b"),
        },
        {"MlflowVersion": "3.0", "RoleArn": "$grafana_role"},
    ),
    "AWS::S3::Bucket": Case(
        {
            "BucketName": "another-bucket",
            "BucketEncryption": {
                "ServerSideEncryptionConfiguration": [{"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]
            },
            "LifecycleConfiguration": {"Rules": [{"Id": "r", "Status": "Enabled", "ExpirationInDays": 30}]},
            "LoggingConfiguration": {"DestinationBucketName": "$log_bucket", "LogFilePrefix": "a"},
            "OwnershipControls": {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]},
            "PublicAccessBlockConfiguration": {
                "BlockPublicAcls": True,
                "BlockPublicPolicy": True,
                "IgnorePublicAcls": True,
                "RestrictPublicBuckets": True,
            },
            "Tags": tags("a"),
            "VersioningConfiguration": {"Status": "Enabled"},
        },
        {
            "BucketEncryption.ServerSideEncryptionConfiguration": [
                {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": "$key"}}
            ],
            "LifecycleConfiguration.Rules": [{"Id": "r", "Status": "Enabled", "ExpirationInDays": 31}],
            "LoggingConfiguration.DestinationBucketName": "$other_log_bucket",
            "LoggingConfiguration.LogFilePrefix": "b",
            "NotificationConfiguration": {"EventBridgeConfiguration": {"EventBridgeEnabled": True}},
            "OwnershipControls": {"Rules": [{"ObjectOwnership": "ObjectWriter"}]},
            "PublicAccessBlockConfiguration.BlockPublicAcls": False,
            "PublicAccessBlockConfiguration.BlockPublicPolicy": False,
            "PublicAccessBlockConfiguration.IgnorePublicAcls": False,
            "PublicAccessBlockConfiguration.RestrictPublicBuckets": False,
            "Tags": tags("b"),
            "VersioningConfiguration.Status": "Suspended",
        },
        {"AccessControl": "Private", "ObjectLockEnabled": True},
    ),
    "AWS::S3::BucketPolicy": Case(
        {"Bucket": "$log_bucket", "PolicyDocument": policy("s3:GetObject", Effect="Deny", **ANYONE)},
        {"PolicyDocument": policy("s3:PutObject", Effect="Deny", **ANYONE)},
    ),
    "AWS::SNS::Subscription": Case(
        {"TopicArn": "$topic", "Protocol": "email", "Endpoint": "a@example.com"},
        refused={"Endpoint": "b@example.com", "RawMessageDelivery": True},
    ),
    "AWS::SNS::Topic": Case(
        {"DisplayName": "a", "KmsMasterKeyId": "$key", "Tags": tags("a")},
        {"DisplayName": "b", "KmsMasterKeyId": "$other_key", "Tags": tags("b")},
        {"SignatureVersion": "2"},
    ),
    "AWS::SNS::TopicPolicy": Case(
        {"Topics": ["$topic"], "PolicyDocument": policy("sns:Publish", **ANYONE)},
        {"Topics": ["$other_topic"], "PolicyDocument": policy("sns:Subscribe", **ANYONE)},
    ),
    "AWS::SSM::Parameter": Case(
        {"Type": "String", "Value": "a", "Description": "a", "Tags": {"Name": "a"}},
        {"Description": "b", "Tags": {"Name": "b"}, "Type": "StringList", "Value": "b"},
        {"Tier": "Advanced"},
    ),
    "AWS::StepFunctions::StateMachine": Case(
        {
            "DefinitionString": MACHINE,
            "RoleArn": "$states_role",
            "TracingConfiguration": {"Enabled": True},
            "Tags": tags("a"),
        },
        {
            "DefinitionString": OTHER_MACHINE,
            "LoggingConfiguration": {"Level": "ALL", "IncludeExecutionData": True},
            "RoleArn": "$other_states_role",
            "Tags": tags("b"),
            "TracingConfiguration.Enabled": False,
        },
    ),
}
