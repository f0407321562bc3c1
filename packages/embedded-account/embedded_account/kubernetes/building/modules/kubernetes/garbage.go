package main

import (
	"context"
	"time"

	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
)

const (
	// kindsPeriod is how often the controller manager makes the garbage collector look for new kinds.
	kindsPeriod = 30 * time.Second
	// collectorUser is the service account of the garbage collector, whose permissions it keeps to here, too.
	collectorUser = "system:serviceaccount:kube-system:generic-garbage-collector"
	// collectorWorkers is the default of --concurrent-gc-syncs.
	collectorWorkers = 20
)

// collectGarbage starts Kubernetes' garbage collector, until the context ends.
func collectGarbage(ctx context.Context, config *rest.Config) error {
	client, objects, err := clientsOf(collectorUser, config)
	if err != nil {
		return err
	}
	watched := informerfactory.NewInformerFactory(
		informers.NewSharedInformerFactory(client, 0), metadatainformer.NewSharedInformerFactory(objects, 0))
	begun := make(chan struct{})
	collector, err := garbagecollector.NewGarbageCollector(
		ctx, client, objects, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery())),
		garbagecollector.DefaultIgnoredResources(), watched, begun)
	if err != nil {
		return err
	}
	close(begun)
	go collector.Run(ctx, collectorWorkers, kindsPeriod)
	go collector.Sync(ctx, client.Discovery(), kindsPeriod/faster)
	return nil
}
