package main

import (
	_ "embed"
	"fmt"

	"sigs.k8s.io/kwok/kustomize/stage/node/fast"
	heartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/config"
)

// Two stages for tests of what a real kubelet does slowly or badly; see the files for what they do.
var (
	//go:embed stages/pod-delete.yaml
	podDelete string
	//go:embed stages/pod-unhealthy.yaml
	podUnhealthy string
)

// loadStages returns KWOK's own stages, by the kind they apply to, with its pod-delete replaced by ours. They touch nothing but
// the status: labels, taints and capacity of a node stay as whoever created the node wrote them.
func loadStages() (map[internalversion.StageResourceRef][]*internalversion.Stage, error) {
	stages := map[internalversion.StageResourceRef][]*internalversion.Stage{}
	for _, text := range []string{
		fast.DefaultNodeInit, heartbeat.DefaultNodeHeartbeatWithLease,
		podfast.DefaultPodReady, podfast.DefaultPodComplete, podDelete, podUnhealthy,
	} {
		stage, err := config.UnmarshalWithType[*internalversion.Stage](text)
		if err != nil {
			return nil, fmt.Errorf("read a built-in stage: %w", err)
		}
		stages[stage.Spec.ResourceRef] = append(stages[stage.Spec.ResourceRef], stage)
	}
	return stages, nil
}
