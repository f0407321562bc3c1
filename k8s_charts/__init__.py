"""Every Kubernetes object that the project makes, and the values of the Helm releases.

Pure cdk8s: typed inputs of plain strings and numbers in, manifests out. Nothing here knows of CloudFormation, so a
chart is tested in milliseconds; values known only at deployment arrive as opaque strings.
"""
