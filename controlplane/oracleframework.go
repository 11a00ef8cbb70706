package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	backend "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// newFrameworks builds the framework of each of kube-scheduler's profiles, by the name of the scheduler. It does so as the scheduler itself
// does, without the parts after scoring: it has no event recorder, no queue, and a client that reaches no server.
func newFrameworks(ctx context.Context, factory *oracleFactory, snapshot *backend.Snapshot, c oracleConfig) (map[string]framework.Framework, error) {
	profiles, err := profilesOf(c)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://oracle.invalid"})
	if err != nil {
		return nil, err
	}
	claims := assumecache.NewAssumeCache(klog.FromContext(ctx), factory.of(&resourcev1.ResourceClaim{}), "ResourceClaim", "", nil)
	slices, err := tracker.StartTracker(ctx, tracker.Options{SliceInformer: factory.Resource().V1().ResourceSlices()})
	if err != nil {
		return nil, err
	}
	devices := dynamicresources.NewDRAManager(ctx, claims, slices, factory)
	if handler, ok := devices.DeviceClassResolver().(cache.ResourceEventHandler); ok {
		factory.of(&resourcev1.DeviceClass{}).handlers = append(factory.of(&resourcev1.DeviceClass{}).handlers, handler)
	}
	out := map[string]framework.Framework{}
	for i := range profiles {
		out[profiles[i].SchedulerName], err = frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), &profiles[i],
			frameworkruntime.WithClientSet(client),
			frameworkruntime.WithInformerFactory(factory),
			frameworkruntime.WithSharedDRAManager(devices),
			frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
			frameworkruntime.WithSnapshotSharedLister(snapshot),
			frameworkruntime.WithParallelism(1),
			frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
			frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()),
		)
		if err != nil {
			return nil, fmt.Errorf("profile %s: %w", profiles[i].SchedulerName, err)
		}
	}
	return out, nil
}

// profilesOf returns the profiles of the configuration, or the default profile if there is no configuration.
func profilesOf(c oracleConfig) ([]config.KubeSchedulerProfile, error) {
	if c.Scheduler == "" {
		profile, err := defaultProfile(c.DefaultConstraints)
		if err != nil {
			return nil, err
		}
		return []config.KubeSchedulerProfile{*profile}, nil
	}
	object, kind, err := scheme.Codecs.UniversalDecoder().Decode([]byte(c.Scheduler), nil, nil)
	if err != nil {
		return nil, fmt.Errorf("scheduler: %w", err)
	}
	read, ok := object.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("scheduler: %s is no KubeSchedulerConfiguration", kind)
	}
	read.APIVersion = kind.GroupVersion().String() // the validation depends on it
	if err := validation.ValidateKubeSchedulerConfiguration(read); err != nil {
		return nil, fmt.Errorf("scheduler: %w", err)
	}
	return read.Profiles, nil
}

// defaultProfile returns the profile of a scheduler without a configuration file, with the given default spread constraints if there are any.
func defaultProfile(constraints []corev1.TopologySpreadConstraint) (*config.KubeSchedulerProfile, error) {
	var versioned configv1.KubeSchedulerConfiguration
	scheme.Scheme.Default(&versioned)
	var c config.KubeSchedulerConfiguration
	if err := scheme.Scheme.Convert(&versioned, &c, nil); err != nil {
		return nil, fmt.Errorf("default configuration: %w", err)
	}
	profile := &c.Profiles[0]
	if len(constraints) == 0 {
		return profile, nil
	}
	for i := range profile.PluginConfig {
		if spread, ok := profile.PluginConfig[i].Args.(*config.PodTopologySpreadArgs); ok {
			spread.DefaultConstraints, spread.DefaultingType = constraints, config.ListDefaulting
			return profile, nil
		}
	}
	return nil, fmt.Errorf("the default profile has no arguments of %s", names.PodTopologySpread)
}
