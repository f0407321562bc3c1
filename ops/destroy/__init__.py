"""Destroy an environment by steps that can be repeated: plan, `cdk destroy`, and a look at what is left."""
