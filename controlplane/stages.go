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

// Two stages for tests of slow or faulty kubelets; see the files.
var (
	//go:embed stages/pod-delete.yaml
	podDelete string
	//go:embed stages/pod-unhealthy.yaml
	podUnhealthy string
)

// nodeInit returns KWOK's stage node-initialize for kubelets of the control plane's version. KWOK's own stage names KWOK's version, which
// programs cannot compare with the control plane's.
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

// podReady returns KWOK's stage pod-ready with the sizes of containers in the pod's status, because kubelets that resize in place report them.
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

// loadStages returns KWOK's own stages, by the kind to which they apply, but with our pod-delete, and with node-initialize and pod-ready as
// nodeInit and podReady return them. It adds our stage pod-unhealthy. The stages change only the status. The labels, taints and capacity of a
// node stay as the node's creator wrote them.
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
