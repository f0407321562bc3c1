"""Read and validate templates: syntax, intrinsic functions, parameters, resource types."""
