"""Reading and validating templates: syntax, intrinsic functions, parameters, resource types."""
