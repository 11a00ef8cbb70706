package main

import (
	_ "embed"
	"fmt"
	"strings"

	"k8s.io/component-base/version"
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

// nodeInit is KWOK's stage of that name for kubelets of the control plane's version. KWOK's own kubelets name KWOK's, which is no
// version to whoever compares the two.
func nodeInit(kubernetes string) (string, error) {
	text := fast.DefaultNodeInit
	for _, program := range []string{"kubelet", "kubeProxy"} {
		before := fmt.Sprintf("or $nodeInfo.%sVersion $kwokVersion", program)
		if !strings.Contains(text, before) {
			return "", fmt.Errorf("KWOK's stage for new nodes does not say %q, so that their version cannot be set", before)
		}
		text = strings.Replace(text, before, fmt.Sprintf("or $nodeInfo.%sVersion %q", program, kubernetes), 1)
	}
	return text, nil
}

// podReady is KWOK's stage of that name for kubelets that say what they have given each container, as all do that resize in place.
func podReady() (string, error) {
	const before = "restartCount: 0\n"
	head, tail, found := strings.Cut(podfast.DefaultPodReady, before)
	if !found {
		return "", fmt.Errorf("KWOK's stage for pods that become ready does not say %q, so that nothing can be said beside it", before)
	}
	return head + before + `        {{ if .resources }}
        resources: {{ pick .resources "requests" "limits" | toJson }}
        {{ if .resources.requests }}
        allocatedResources: {{ .resources.requests | toJson }}
        {{ end }}
        {{ end }}
` + tail, nil
}

// loadStages returns KWOK's own stages, by the kind they apply to, with its pod-delete replaced by ours and its
// node-initialize and pod-ready changed as nodeInit and podReady say. They touch nothing but
// the status: labels, taints and capacity of a node stay as whoever created the node wrote them.
func loadStages() (map[internalversion.StageResourceRef][]*internalversion.Stage, error) {
	stages := map[internalversion.StageResourceRef][]*internalversion.Stage{}
	node, err := nodeInit(version.Get().GitVersion)
	if err != nil {
		return nil, err
	}
	ready, err := podReady()
	if err != nil {
		return nil, err
	}
	for _, text := range []string{
		node, heartbeat.DefaultNodeHeartbeatWithLease,
		ready, podfast.DefaultPodComplete, podDelete, podUnhealthy,
	} {
		stage, err := config.UnmarshalWithType[*internalversion.Stage](text)
		if err != nil {
			return nil, fmt.Errorf("read a built-in stage: %w", err)
		}
		stages[stage.Spec.ResourceRef] = append(stages[stage.Spec.ResourceRef], stage)
	}
	return stages, nil
}
