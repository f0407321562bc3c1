"""The buckets, the image repository and the file system."""
