"""A sleeping group in a world of its own, for the tests of the rule that lets groups sleep."""
