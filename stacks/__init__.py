"""CDK stacks, divided by lifetime: network, storage, eks, hyperpod, platform, ray."""
