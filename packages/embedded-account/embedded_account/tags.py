"""Turn the tags of AWS's APIs, lists of Key and Value, into maps, and back."""

from collections.abc import Iterable, Mapping


def tag_map(tags: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return listed tags as a map."""
    return {tag["Key"]: tag["Value"] for tag in tags}


def tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Return a map of tags as a list."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]
