// Package main is Kubernetes' controller manager, with shorter pauses that no flag changes.
//
// The namespace controller waits five seconds before it empties a deleted namespace, for other API servers and members
// of etcd, which a rehearsal does not have. Then it waits half of the remaining pods' grace period. Here, Kubernetes'
// own deleter runs beside that controller after a tenth of each pause.
//
// The garbage collector looks for new kinds every 30 seconds. The pods of a RayCluster that is deleted before it knows
// that kind stay as long, and so do their volumes. Here, it looks every three seconds.
package main

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"
	_ "time/tzdata" // as in Kubernetes' own main package, for the time zones of CronJobs

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/cli"
	logs "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/pkg/controller/namespace/deletion"
)

const (
	// faster divides the pauses.
	faster = 10
	// firstPause is the namespace controller's namespaceDeletionGracePeriod.
	firstPause = 5 * time.Second
	// deleterUser is the service account of the namespace controller, whose permissions the deleter keeps to.
	deleterUser = "system:serviceaccount:kube-system:namespace-controller"
)

func main() {
	command := app.NewControllerManagerCommand()
	run := command.RunE
	command.RunE = func(started *cobra.Command, arguments []string) error {
		// As the command does first, and must before anything else logs.
		logs.ReapplyHandling = logs.ReapplyHandlingIgnoreUnchanged
		if err := logs.ValidateAndApply(logs.NewLoggingConfiguration(), feature.DefaultFeatureGate); err != nil {
			return err
		}
		config, err := clientcmd.BuildConfigFromFlags("", started.Flags().Lookup("kubeconfig").Value.String())
		if err != nil {
			return err
		}
		for _, start := range []func(context.Context, *rest.Config) error{emptyNamespaces, collectGarbage} {
			if err := start(context.Background(), config); err != nil {
				return err
			}
		}
		return run(started, arguments)
	}
	os.Exit(cli.Run(command))
}

// clientsOf returns clients with a service account's permissions, for whole objects and for their metadata.
func clientsOf(account string, config *rest.Config) (kubernetes.Interface, metadata.Interface, error) {
	config = rest.CopyConfig(config)
	config.Impersonate.UserName = account
	config.QPS, config.Burst = 500, 1000
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	objects, err := metadata.NewForConfig(config)
	return client, objects, err
}

// emptyNamespaces starts to empty the deleted namespaces of a cluster, until the context ends.
func emptyNamespaces(ctx context.Context, config *rest.Config) error {
	client, objects, err := clientsOf(deleterUser, config)
	if err != nil {
		return err
	}
	// Made for the first namespace: it ends the process if the API server does not answer.
	deleter := sync.OnceValue(func() deletion.NamespacedResourcesDeleterInterface {
		namespaces, discover := client.CoreV1().Namespaces(), client.Discovery().ServerPreferredNamespacedResources
		return deletion.NewNamespacedResourcesDeleter(
			ctx, namespaces, objects, client.CoreV1(), discover, corev1.FinalizerKubernetes)
	})
	var emptied sync.Map
	see := func(object any) {
		namespace, is := object.(*corev1.Namespace)
		if !is || namespace.DeletionTimestamp == nil {
			return
		}
		if _, begun := emptied.LoadOrStore(namespace.UID, true); !begun {
			go empty(ctx, deleter, namespace.Name)
		}
	}
	informer := informers.NewSharedInformerFactory(client, 0).Core().V1().Namespaces().Informer()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    see,
		UpdateFunc: func(_, object any) { see(object) },
	})
	if err != nil {
		return err
	}
	go informer.Run(ctx.Done())
	return nil
}

// empty deletes what a namespace holds, and then the namespace.
func empty(ctx context.Context, deleter func() deletion.NamespacedResourcesDeleterInterface, name string) {
	pause := firstPause / faster
	for ctx.Err() == nil {
		time.Sleep(pause)
		err := deleter().Delete(ctx, name)
		if err == nil {
			return
		}
		pause = firstPause / faster
		var remaining *deletion.ResourcesRemainingError
		if errors.As(err, &remaining) {
			pause = time.Duration(remaining.Estimate/2+1) * time.Second / faster
		} else {
			klog.FromContext(ctx).Info("Retrying the deletion of a namespace", "namespace", name, "reason", err.Error())
		}
	}
}
