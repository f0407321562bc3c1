//go:build tools

// Package tools keeps the main packages that are built from this module in its go.mod.
package tools

import (
	_ "github.com/ray-project/kuberay/ray-operator"
)
