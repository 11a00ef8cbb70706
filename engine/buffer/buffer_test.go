package buffer_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"tenon.sh/api/autoscalingv1beta1"

	"tenon.sh/engine"
	"tenon.sh/engine/buffer"
	"tenon.sh/engine/kube"
	"tenon.sh/scenario"
)

// objects reads a scenario with these Kubernetes objects.
func objects(t *testing.T, documents ...string) *engine.Snapshot {
	t.Helper()
	f, err := scenario.Parse("pool general\nyaml\n" + strings.Join(documents, "\n---\n") + "\nend\n")
	if err != nil {
		t.Fatal(err)
	}
	return f.Snapshot
}

func buffered(spec string) string {
	return "apiVersion: autoscaling.x-k8s.io/v1beta1\nkind: CapacityBuffer\nmetadata: {name: b, namespace: default, uid: b}\nspec: " + spec
}

func deployment(replicas int) string {
	return fmt.Sprintf("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: default}\n"+
		"spec: {replicas: %d, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: web, resources: {requests: {cpu: '1'}}}]}}}", replicas)
}

func template(spec string) string {
	return "apiVersion: v1\nkind: PodTemplate\nmetadata: {name: web, namespace: default}\ntemplate: {metadata: {labels: {app: web}}, spec: " + spec + "}"
}

const oneCore = "{containers: [{name: web, image: web, resources: {requests: {cpu: '1'}}}]}"

func TestSizesAreThoseOfTheSpec(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		spec     string
		replicas int // the replicas of the workload
		want     int
	}{
		{"{podTemplateRef: {name: web}, replicas: 5}", 0, 5},
		{"{scalableRef: {kind: Deployment, name: web}, percentage: 20}", 10, 2},
		{"{scalableRef: {kind: Deployment, name: web}, replicas: 5, percentage: 80}", 10, 8},
		{"{scalableRef: {kind: Deployment, name: web}, replicas: 9, percentage: 80}", 10, 9},
		{"{podTemplateRef: {name: web}, replicas: 10, limits: {cpu: '3'}}", 0, 3},
		{"{scalableRef: {kind: Deployment, name: web}, replicas: 5, percentage: 80, limits: {cpu: '4'}}", 10, 4},
		{"{podTemplateRef: {name: web}, limits: {cpu: 5500m}}", 0, 5},
		{"{scalableRef: {kind: Deployment, name: web}, percentage: 5}", 10, 1},
		{"{scalableRef: {kind: Deployment, name: web}, percentage: 30}", 0, 0},
		{"{scalableRef: {kind: Deployment, name: web}, replicas: 2, percentage: 30}", 0, 2},
		{"{podTemplateRef: {name: web}, replicas: 4, limits: {nvidia.com/gpu: '1'}}", 0, 4}, // the pods request none
		{"{podTemplateRef: {name: web}, replicas: 4, percentage: 500}", 0, 4},               // a percentage of no replicas
		{"{podTemplateRef: {name: web}, replicas: 2000000000}", 0, buffer.MostPods},
	} {
		all := buffer.Resolve(objects(t, buffered(test.spec), deployment(test.replicas), template(oneCore)), nil)
		if len(all) != 1 || all[0].Reason != "" || all[0].Size != test.want {
			t.Errorf("%s of %d: %+v, want a size of %d", test.spec, test.replicas, all, test.want)
		}
	}
}

func TestWhatCannotBeResolvedSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string][2]string{
		"{podTemplateRef: {name: nix}, replicas: 5}":                                    {autoscalingv1beta1.PodTemplateNotFound, "make one"},
		"{scalableRef: {kind: Deployment, name: nix}, replicas: 5}":                     {autoscalingv1beta1.ScalableRefNotFound, "make one"},
		"{scalableRef: {kind: Job, name: web}, replicas: 5}":                            {autoscalingv1beta1.ResolutionFailed, "Deployment, StatefulSet or ReplicaSet"},
		"{scalableRef: {apiGroup: batch, kind: Job, name: web}, replicas: 5}":           {autoscalingv1beta1.ResolutionFailed, "group apps"},
		"{scalableRef: {kind: StatefulSet, name: web}, replicas: 5}":                    {autoscalingv1beta1.ScalableRefNotFound, "StatefulSet web"},
		"{scalableRef: {apiGroup: apps, kind: ReplicaSet, name: web-1}, percentage: 5}": {autoscalingv1beta1.ResolutionFailed, "name that"},
		"{replicas: 5}": {autoscalingv1beta1.ResolutionFailed, "set spec.podTemplateRef or spec.scalableRef"},
	} {
		owned := strings.NewReplacer("kind: Deployment", "kind: ReplicaSet", "name: web,", "name: web-1, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: w, controller: true}],").Replace(deployment(1))
		all := buffer.Resolve(objects(t, buffered(spec), owned), nil)
		if len(all) != 1 || all[0].Reason != want[0] || !strings.Contains(all[0].Message, want[1]) || all[0].Size != 0 {
			t.Errorf("%s: %+v, want %q", spec, all, want)
		}
	}
	if all := buffer.Resolve(objects(t, buffered("{provisioningStrategy: example.com/other, podTemplateRef: {name: web}, replicas: 5}"), template(oneCore)), nil); len(all) != 0 {
		t.Errorf("another program's buffer is followed: %+v", all)
	}
	going := strings.Replace(buffered("{podTemplateRef: {name: web}, replicas: 5}"), "uid: b}", "uid: b, finalizers: [example.com/x], deletionTimestamp: '2026-01-01T00:00:00Z'}", 1)
	if all := buffer.Resolve(objects(t, going, template(oneCore)), nil); len(all) != 0 {
		t.Errorf("a buffer that is being deleted keeps room: %+v", all)
	}
}

// podsOf returns the pods that represent the buffers' room.
func podsOf(s *engine.Snapshot) *engine.Snapshot {
	made := &buffer.Pods{}
	return &engine.Snapshot{Pods: made.Of(buffer.Resolve(s, nil))}
}

func TestPodsAreWhatTheAPIServerWouldMakeOfTheTemplate(t *testing.T) {
	t.Parallel()
	s := podsOf(objects(t, buffered("{podTemplateRef: {name: web}, replicas: 2}"),
		template("{priority: 7, nodeName: somewhere, volumes: [{name: a, persistentVolumeClaim: {claimName: x}}, {name: b, ephemeral: {}}, {name: c, hostPath: {path: /}}], "+
			"containers: [{name: web, image: web, resources: {limits: {cpu: '2'}}}, {name: side, image: side}]}"),
		"apiVersion: v1\nkind: LimitRange\nmetadata: {name: l, namespace: default}\nspec: {limits: [{type: Container, defaultRequest: {cpu: 500m}}]}",
		"apiVersion: v1\nkind: LimitRange\nmetadata: {name: l, namespace: other}\nspec: {limits: [{type: Container, defaultRequest: {cpu: 5}}]}"))
	if len(s.Pods) != 2 || s.Pods[0].UID == s.Pods[1].UID || s.Pods[0].Name == s.Pods[1].Name {
		t.Fatalf("%d pods: %+v", len(s.Pods), s.Pods)
	}
	pod := s.Pods[0]
	if cpu := kube.PodRequests(pod)["cpu"]; cpu.MilliValue() != 2500 {
		t.Errorf("requests %v of cpu, want what limits and the LimitRange of the namespace make of it, 2500m", cpu.String())
	}
	if kube.EvictionCost(pod) != 0 {
		t.Errorf("moving room costs %v", kube.EvictionCost(pod))
	}
	if len(pod.Spec.Volumes) != 1 || pod.Spec.NodeName != "" || *pod.Spec.Priority >= 0 || !kube.IsPending(pod) || !kube.IsBufferPod(pod) {
		t.Errorf("%+v", pod)
	}
}

func TestPodsStayTheSameAsLongAsWhatTheyAreMadeOf(t *testing.T) {
	t.Parallel()
	s := objects(t, buffered("{podTemplateRef: {name: web}, replicas: 2}"), template(oneCore))
	made := &buffer.Pods{}
	first, again := made.Of(buffer.Resolve(s, nil)), made.Of(buffer.Resolve(s, nil))
	bound := made.Bind(first[0], "n")
	if first[1] != again[1] || made.Bind(again[0], "n") != bound {
		t.Error("nothing has changed, and the pods are others")
	}
	s.PodTemplates[0] = s.PodTemplates[0].DeepCopy()
	s.PodTemplates[0].Template.Spec.NodeSelector = map[string]string{"a": "b"}
	if other := made.Of(buffer.Resolve(s, nil)); other[0].Spec.NodeSelector["a"] != "b" {
		t.Error("the template has changed, and the pods have not")
	}
}

func TestQuotasBoundWhatRoomIsKeptFor(t *testing.T) {
	t.Parallel()
	quota := func(spec, status string) string {
		return "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: few, namespace: default}\nspec: " + spec + "\nstatus: " + status
	}
	for _, test := range []struct {
		quota string
		want  int
		by    string
	}{
		{quota("{hard: {pods: '3'}}", "{hard: {pods: '3'}, used: {pods: '1'}}"), 2, "few"},
		{quota("{hard: {requests.cpu: 4500m}}", "{}"), 4, "few"},
		{quota("{hard: {cpu: '1'}}", "{hard: {cpu: '1'}, used: {cpu: '3'}}"), 0, "few"},
		{quota("{hard: {requests.memory: 1Gi}}", "{}"), 5, ""}, // the pods request none
		{quota("{hard: {pods: '1'}, scopes: [BestEffort]}", "{}"), 5, ""},
		{quota("{hard: {pods: '1'}, scopes: [NotTerminating]}", "{}"), 1, "few"},
		{strings.Replace(quota("{hard: {pods: '1'}}", "{}"), "namespace: default", "namespace: other", 1), 5, ""},
	} {
		all := buffer.Resolve(objects(t, buffered("{podTemplateRef: {name: web}, replicas: 5}"), template(oneCore), test.quota), nil)
		if len(all) != 1 || all[0].Size != test.want || all[0].Quota != test.by {
			t.Errorf("%s: %d by %q, want %d by %q", test.quota, all[0].Size, all[0].Quota, test.want, test.by)
		}
	}
	second := strings.Replace(buffered("{podTemplateRef: {name: web}, replicas: 5}"), "name: b, namespace: default, uid: b", "name: c, namespace: default, uid: c", 1)
	all := buffer.Resolve(objects(t, second, buffered("{podTemplateRef: {name: web}, replicas: 5}"), template(oneCore), quota("{hard: {pods: '7'}}", "{}")), nil)
	if all[0].Size != 5 || all[1].Size != 2 {
		t.Errorf("two buffers have room for %d and %d pods, and 7 can be made", all[0].Size, all[1].Size)
	}
	// If the size is below the limit for all buffers, the quota does not reduce it.
	all = buffer.Resolve(objects(t, buffered("{podTemplateRef: {name: web}, replicas: 5}"), template(oneCore), quota("{hard: {pods: '3'}}", "{}")), corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")})
	if all[0].Size != 2 || all[0].Limit != corev1.ResourceCPU || all[0].Quota != "" {
		t.Errorf("room for %d pods, by limit %q and quota %q; the limit allows 2", all[0].Size, all[0].Limit, all[0].Quota)
	}
}

// The oldest buffers first get their part of the limit for all buffers, buffers of equal age by name. A buffer without a valid spec gets
// nothing.
func TestAllBuffersTogetherAreBounded(t *testing.T) {
	t.Parallel()
	named := func(name, created, spec string) string {
		return strings.Replace(buffered(spec), "name: b, namespace: default, uid: b", "name: "+name+", namespace: default, uid: "+name+", creationTimestamp: "+created, 1)
	}
	const five = "{podTemplateRef: {name: web}, replicas: 5}"
	s := objects(t, named("a", "2026-01-03T00:00:00Z", five), named("b", "2026-01-02T00:00:00Z", five), named("c", "2026-01-02T00:00:00Z", five),
		named("d", "2026-01-01T00:00:00Z", "{podTemplateRef: {name: none}, replicas: 5}"), template(oneCore))
	for _, test := range []struct {
		limits string
		sizes  []int
		by     []string
	}{
		{"", []int{5, 5, 5, 0}, []string{"", "", "", ""}},
		{"cpu=15", []int{5, 5, 5, 0}, []string{"", "", "", ""}},
		{"cpu=8500m", []int{0, 5, 3, 0}, []string{"cpu", "", "cpu", ""}},
		{"pods=12", []int{2, 5, 5, 0}, []string{"pods", "", "", ""}},
		{"memory=1", []int{5, 5, 5, 0}, []string{"", "", "", ""}}, // the pods request none
		{"cpu=12 pods=7", []int{0, 5, 2, 0}, []string{"pods", "", "pods", ""}},
		{"cpu=0", []int{0, 0, 0, 0}, []string{"cpu", "cpu", "cpu", ""}},
	} {
		limits := corev1.ResourceList{}
		for _, part := range strings.Fields(test.limits) {
			name, amount, _ := strings.Cut(part, "=")
			limits[corev1.ResourceName(name)] = resource.MustParse(amount)
		}
		for range 2 { // no call reduces the limits of the next one
			for i, b := range buffer.Resolve(s, limits) {
				if b.Size != test.sizes[i] || string(b.Limit) != test.by[i] {
					t.Errorf("%q: %s has room for %d, by %q; want %d, by %q", test.limits, b.Object.Name, b.Size, b.Limit, test.sizes[i], test.by[i])
				}
			}
		}
	}
}
