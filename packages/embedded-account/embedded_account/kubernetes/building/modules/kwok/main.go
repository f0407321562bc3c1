// Package main simulates the nodes of a rehearsal and their pods with kwok's controllers.
//
// kwok's own command also serves logs, metrics and custom resources, which takes twice the packages. And it may end
// with "concurrent map writes" when its first node and its first pod arrive together: see fillTypeTables.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	configv1alpha1 "sigs.k8s.io/kwok/pkg/apis/config/v1alpha1"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/apis/v1alpha1"
	"sigs.k8s.io/kwok/pkg/kwok/controllers"
	"sigs.k8s.io/kwok/pkg/utils/client"
	"sigs.k8s.io/kwok/pkg/utils/lifecycle"
)

// The flags have the names that they have in kwok's own command.
func main() {
	var config controllers.Config
	kubeconfig := flag.String("kubeconfig", "", "file with the cluster's address and credentials")
	stages := flag.String("config", "", "file with the Stages of nodes and pods")
	flag.StringVar(&config.ManageNodesWithLabelSelector, "manage-nodes-with-label-selector", "", "nodes to simulate")
	flag.UintVar(&config.NodeLeaseDurationSeconds, "node-lease-duration-seconds", 40, "renewed at a quarter of this")
	flag.StringVar(&config.CIDR, "cidr", "", "range of the pods' addresses")
	flag.StringVar(&config.NodeIP, "node-ip", "", "address of every node")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := simulate(ctx, config, *kubeconfig, *stages); err != nil {
		slog.Error("kwok ends", "err", err)
		os.Exit(1)
	}
}

// simulate runs kwok's controllers until ctx is done.
func simulate(ctx context.Context, config controllers.Config, kubeconfig, stages string) (err error) {
	if config.LocalStages, err = load(ctx, stages); err != nil {
		return fmt.Errorf("%s: %w", stages, err)
	}
	if config.TypedClient, err = connect(kubeconfig); err != nil {
		return err
	}
	if config.ID, err = controllers.Identity(); err != nil {
		return err
	}
	config.Clock = clock.RealClock{}
	setDefaults(&config)
	controller, err := controllers.NewController(config)
	if err != nil {
		return err
	}
	if err := controller.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// connect returns a client without a limit of requests per second, as kwok's own command has it.
func connect(kubeconfig string) (kubernetes.Interface, error) {
	clients, err := client.NewClientset("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config, err := clients.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// setDefaults takes over what kwok's own command does without a configuration file.
func setDefaults(config *controllers.Config) {
	var defaults configv1alpha1.KwokConfiguration
	configv1alpha1.SetObjectDefaults_KwokConfiguration(&defaults)
	config.PodPlayStageParallelism = defaults.Options.PodPlayStageParallelism
	config.NodePlayStageParallelism = defaults.Options.NodePlayStageParallelism
	config.NodeLeaseParallelism = defaults.Options.NodeLeaseParallelism
	config.PodsOnNodeSyncParallelism = defaults.Options.PodsOnNodeSyncParallelism
	config.EnablePodsOnNodeSyncListPager = *defaults.Options.EnablePodsOnNodeSyncListPager
	config.EnablePodsOnNodeSyncStreamWatch = *defaults.Options.EnablePodsOnNodeSyncStreamWatch
}

type stagesByKind = map[internalversion.StageResourceRef][]*internalversion.Stage

// load reads a file of Stages, one YAML document each, and makes them safe to be matched at the same time.
func load(ctx context.Context, path string) (stagesByKind, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	loaded := stagesByKind{}
	for documents := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		var stage v1alpha1.Stage
		if err := documents.Decode(&stage); errors.Is(err, io.EOF) {
			return loaded, fillTypeTables(ctx, loaded)
		} else if err != nil {
			return nil, err
		}
		v1alpha1.SetObjectDefaults_Stage(&stage)
		internal, err := internalversion.ConvertToInternalStage(&stage)
		if err != nil {
			return nil, err
		}
		loaded[internal.Spec.ResourceRef] = append(loaded[internal.Spec.ResourceRef], internal)
	}
}

// fillTypeTables matches a node and a pod against the stages, one after the other.
//
// The first match of a kind enters the kind's types into maps that kwok's library for CEL expressions (easycel 0.6)
// has once per process and does not guard. kwok matches nodes and pods at the same time, so without this both may
// write there; later matches only read.
func fillTypeTables(ctx context.Context, stages stagesByKind) error {
	for kind, object := range map[string]any{"Node": &corev1.Node{}, "Pod": &corev1.Pod{}} {
		matched, err := lifecycle.NewLifecycle(stages[internalversion.StageResourceRef{APIGroup: "v1", Kind: kind}])
		if err != nil {
			return err
		}
		if _, err := matched.Match(ctx, &lifecycle.Event{Data: object}); err != nil {
			return err
		}
	}
	return nil
}
