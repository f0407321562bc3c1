"""Every Kubernetes object of the project, and the values of the Helm releases.

Pure cdk8s: the inputs are typed plain strings and numbers, the output is manifests. Nothing here depends on
CloudFormation, so a chart is tested in milliseconds. Values known only at deployment arrive as opaque strings.
"""
