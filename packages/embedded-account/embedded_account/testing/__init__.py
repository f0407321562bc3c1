"""Support for tests that deploy to an embedded account or talk to its Kubernetes: fixtures in `plugin`, and helpers."""
