package main

import (
	"context"
	"maps"
	"reflect"
	"testing"
	_ "unsafe" // for linkname

	"github.com/google/cel-go/common/types"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kwok/pkg/utils/lifecycle"
)

//go:linkname typeValues github.com/wzshiming/easycel.typeValueMap
var typeValues map[reflect.Type]*types.Type

//go:linkname typeTraits github.com/wzshiming/easycel.typeTraitMap
var typeTraits map[reflect.Type]int

// With the rehearsal's own stages, loading has left nothing to be written to the maps that nodes and pods share.
func TestMatchesOnlyReadTheTypeTables(t *testing.T) {
	stages, err := load(context.Background(), "../../../stages.yaml")
	if err != nil {
		t.Fatal(err)
	}
	values, traits := maps.Clone(typeValues), maps.Clone(typeTraits)
	if len(values) == 0 || len(traits) == 0 {
		t.Fatal("easycel keeps its types elsewhere now: look there for unguarded writes")
	}
	for _, object := range []any{&corev1.Node{}, &corev1.Pod{}} {
		for kind := range stages {
			matched, err := lifecycle.NewLifecycle(stages[kind])
			if err != nil {
				t.Fatal(err)
			}
			if _, err := matched.Match(context.Background(), &lifecycle.Event{Data: object}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !maps.Equal(values, typeValues) || !maps.Equal(traits, typeTraits) {
		t.Error("a match wrote to a map that nodes and pods share")
	}
}
