package prometheus_test

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	v1 "tenon.sh/api/v1"
)

// applyText applies the documents of a text.
func (w *world) applyText(text string) {
	w.Helper()
	for document := range strings.SplitSeq(text, "\n---\n") {
		o := &unstructured.Unstructured{}
		w.must(yaml.Unmarshal([]byte(document), &o.Object))
		w.apply(o)
	}
}

// pool makes a pool of one instance type; more are further fields of its spec, as they stand in YAML.
func (w *world) pool(name, instanceType string, more ...string) {
	w.Helper()
	w.applyText(`
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: ` + name + `}
spec:
  template:
    spec:
      requirements:
      - {key: node.kubernetes.io/instance-type, operator: In, values: [` + instanceType + `]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
  ` + strings.Join(more, "\n  "))
}

// change changes a pool; patch is a merge patch in YAML.
func (w *world) change(pool, patch string) {
	w.Helper()
	text, err := yaml.YAMLToJSON([]byte(patch))
	w.must(err)
	w.must(w.Patch(w, &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: pool}}, client.RawPatch(types.MergePatchType, text)))
}

// pods makes a Deployment of pods that want nodes of the pool, each one of its own; more are further fields of the pods.
func (w *world) pods(pool string, replicas int, more ...string) {
	w.Helper()
	w.applyText(fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: default}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 0
      nodeSelector: {karpenter.sh/nodepool: %[1]s}
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: %[1]s}}}
      containers:
      - {name: c, image: pause, resources: {requests: {cpu: "1"}, limits: {memory: 1Gi}}}
      %[3]s`, pool, replicas, strings.Join(more, "\n      ")))
}

// pod makes a single pod; spec are fields of its spec.
func (w *world) pod(name, cpu, spec string) (remove func()) {
	w.Helper()
	w.applyText(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: default, labels: {app: %[1]s}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {name: c, image: pause, resources: {requests: {cpu: %q}}}
  %s`, name, cpu, spec))
	return func() {
		w.must(w.Delete(w, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}, client.GracePeriodSeconds(0)))
	}
}

// agent is a DaemonSet, such as every cluster has.
const agent = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: kube-system}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      tolerations: [{operator: Exists}]
      containers:
      - {name: c, image: pause, resources: {requests: {cpu: 50m, memory: 64Mi}}}`
