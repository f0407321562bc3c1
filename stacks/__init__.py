"""CDK stacks, cut by life-time: network, storage, eks, hyperpod, platform, ray."""
