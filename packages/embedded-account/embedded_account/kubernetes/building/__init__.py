"""Build the control plane's programs once from Go modules, and cache them."""
