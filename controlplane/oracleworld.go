package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	backend "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// oracleObjects holds the objects that a filter plugin may read.
type oracleObjects struct {
	Nodes                  []*corev1.Node                  `json:"nodes"`
	Pods                   []*corev1.Pod                   `json:"pods"`
	Namespaces             []*corev1.Namespace             `json:"namespaces"`
	Services               []*corev1.Service               `json:"services"`
	ReplicationControllers []*corev1.ReplicationController `json:"replicationControllers"`
	ReplicaSets            []*appsv1.ReplicaSet            `json:"replicaSets"`
	StatefulSets           []*appsv1.StatefulSet           `json:"statefulSets"`
	PersistentVolumes      []*corev1.PersistentVolume      `json:"persistentVolumes"`
	PersistentVolumeClaims []*corev1.PersistentVolumeClaim `json:"persistentVolumeClaims"`
	StorageClasses         []*storagev1.StorageClass       `json:"storageClasses"`
	CSINodes               []*storagev1.CSINode            `json:"csiNodes"`
	CSIDrivers             []*storagev1.CSIDriver          `json:"csiDrivers"`
	CSIStorageCapacities   []*storagev1.CSIStorageCapacity `json:"csiStorageCapacities"`
	VolumeAttachments      []*storagev1.VolumeAttachment   `json:"volumeAttachments"`
	ResourceClaims         []*resourcev1.ResourceClaim     `json:"resourceClaims"`
	ResourceSlices         []*resourcev1.ResourceSlice     `json:"resourceSlices"`
	DeviceClasses          []*resourcev1.DeviceClass       `json:"deviceClasses"`
}

// An oracleWorld is a cluster as kube-scheduler sees it: kube-scheduler's cache of nodes and bound pods, its frameworks with their plugins, and
// informers with the other objects.
type oracleWorld struct {
	frameworks map[string]framework.Framework // by the name of the scheduler
	factory    *oracleFactory
	cache      backend.Cache
	snapshot   *backend.Snapshot
	nodes      map[string]*corev1.Node
	bound      map[types.UID]*corev1.Pod
	stop       context.CancelFunc
	last       *oracleObjects
	logger     klog.Logger
}

func (w *oracleWorld) end() {
	if w.stop != nil {
		w.stop()
	}
}

// reset builds a new cluster. Of the earlier cluster it can only use the objects of the last reset, which never change.
func (w *oracleWorld) reset(ctx context.Context, objects *oracleObjects, config oracleConfig) error {
	if objects == nil {
		objects = w.last
	}
	if objects == nil {
		return errors.New("reset: the objects are missing, and there was no reset before that had some")
	}
	w.end()
	ctx, w.stop = context.WithCancel(ctx)
	w.frameworks, w.last = nil, objects
	w.factory = newOracleFactory()
	w.snapshot = backend.NewEmptySnapshot()
	w.cache = backend.New(ctx, nil, false)
	w.nodes, w.bound = map[string]*corev1.Node{}, map[types.UID]*corev1.Pod{}
	frameworks, err := newFrameworks(ctx, w.factory, w.snapshot, config)
	if err != nil {
		return fmt.Errorf("reset: build kube-scheduler's framework: %w", err)
	}
	if err := w.fill(objects); err != nil {
		return fmt.Errorf("reset: %w", err)
	}
	w.frameworks = frameworks
	return nil
}

func (w *oracleWorld) fill(o *oracleObjects) error {
	for _, n := range o.Nodes {
		if err := w.add(n, nil); err != nil {
			return err
		}
	}
	for _, pod := range o.Pods {
		if pod.Spec.NodeName == "" {
			continue
		}
		if err := w.run(pod); err != nil {
			return err
		}
	}
	return errors.Join(
		putAll(w.factory, o.Namespaces), putAll(w.factory, o.Services), putAll(w.factory, o.ReplicationControllers),
		putAll(w.factory, o.ReplicaSets), putAll(w.factory, o.StatefulSets),
		putAll(w.factory, o.PersistentVolumes), putAll(w.factory, o.PersistentVolumeClaims), putAll(w.factory, o.StorageClasses),
		putAll(w.factory, o.CSINodes), putAll(w.factory, o.CSIDrivers), putAll(w.factory, o.CSIStorageCapacities),
		putAll(w.factory, o.VolumeAttachments), putAll(w.factory, o.ResourceClaims), putAll(w.factory, o.ResourceSlices),
		putAll(w.factory, o.DeviceClasses),
	)
}

func putAll[T runtime.Object](f *oracleFactory, objects []T) error {
	for _, object := range objects {
		if err := f.put(object); err != nil {
			return err
		}
	}
	return nil
}

// add adds or replaces the node. Pods on a node of that name stay.
func (w *oracleWorld) add(node *corev1.Node, csi *storagev1.CSINode) error {
	if old := w.nodes[node.Name]; old != nil {
		w.cache.UpdateNode(w.logger, old, node)
	} else {
		w.cache.AddNode(w.logger, node)
	}
	w.nodes[node.Name] = node
	if err := w.factory.put(node); err != nil || csi == nil {
		return err
	}
	return w.factory.put(csi)
}

// run adds a pod to the node in its spec. It ignores pods that have ended, which kube-scheduler does not watch.
func (w *oracleWorld) run(pod *corev1.Pod) error {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	if pod.UID == "" {
		return fmt.Errorf("pod %s/%s has no UID", pod.Namespace, pod.Name)
	}
	if old := w.bound[pod.UID]; old != nil {
		return fmt.Errorf("pod %s/%s runs on node %s already", pod.Namespace, pod.Name, old.Spec.NodeName)
	}
	if err := w.cache.AddPod(w.logger, pod); err != nil {
		return fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	w.bound[pod.UID] = pod
	return nil
}

func (w *oracleWorld) bind(pod *corev1.Pod, node string) error {
	n := w.nodes[node]
	if n == nil {
		return fmt.Errorf("bind %s/%s: there is no node %q", pod.Namespace, pod.Name, node)
	}
	pod.Spec.NodeName = node
	if err := w.run(pod); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	if err := w.bindClaims(pod, n); err != nil {
		return fmt.Errorf("bind %s/%s to %s: %w", pod.Namespace, pod.Name, node, err)
	}
	return nil
}

func (w *oracleWorld) unbind(pod *corev1.Pod) error {
	bound := w.bound[pod.UID]
	if bound == nil {
		return fmt.Errorf("unbind %s/%s: the pod runs nowhere", pod.Namespace, pod.Name)
	}
	if err := w.cache.RemovePod(w.logger, bound); err != nil {
		return fmt.Errorf("unbind %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	delete(w.bound, pod.UID)
	return nil
}

// ask runs the steps of kube-scheduler: the PreEnqueue plugins, PreFilter, and Filter for each node.
func (w *oracleWorld) ask(ctx context.Context, pod *corev1.Pod, nodes []string) ([]oracleVerdict, error) {
	f, err := w.frameworkOf(pod)
	if err != nil {
		return nil, fmt.Errorf("ask %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	verdicts, err := w.filter(ctx, f, framework.NewCycleState(), pod, nodes)
	if err != nil {
		return nil, fmt.Errorf("ask %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return verdicts, nil
}

// frameworkOf returns the framework of the scheduler that the pod names, the default one if it names none.
func (w *oracleWorld) frameworkOf(pod *corev1.Pod) (framework.Framework, error) {
	name := cmp.Or(pod.Spec.SchedulerName, corev1.DefaultSchedulerName)
	f := w.frameworks[name]
	if f == nil {
		return nil, fmt.Errorf("no profile is for the scheduler %q", name)
	}
	return f, w.cache.UpdateSnapshot(w.logger, w.snapshot)
}

func (w *oracleWorld) filter(ctx context.Context, f framework.Framework, state fwk.CycleState, pod *corev1.Pod, nodes []string) ([]oracleVerdict, error) {
	pod.Spec.NodeName = ""
	for _, plugin := range f.PreEnqueuePlugins() {
		if status := plugin.PreEnqueue(ctx, pod); !status.IsSuccess() {
			return refuseAll(nodes, plugin.Name(), status), nil
		}
	}
	allowed, status, restricting := f.RunPreFilterPlugins(ctx, state, pod)
	if !status.IsSuccess() {
		return refuseAll(nodes, cmp.Or(status.Plugin(), join(restricting)), status), nil
	}
	verdicts := make([]oracleVerdict, 0, len(nodes))
	for _, name := range nodes {
		info, err := w.snapshot.Get(name)
		if err != nil {
			return nil, fmt.Errorf("there is no node %q", name)
		}
		if !allowed.AllNodes() && !allowed.NodeNames.Has(name) {
			verdicts = append(verdicts, oracleVerdict{Node: name, Plugin: join(restricting), Message: "PreFilter leaves other nodes only"})
			continue
		}
		verdicts = append(verdicts, verdictOf(name, f.RunFilterPlugins(ctx, state, pod, info)))
	}
	return verdicts, nil
}

// score runs the steps of kube-scheduler after filtering: PreScore, and Score for each node that is left.
func (w *oracleWorld) score(ctx context.Context, pod *corev1.Pod, nodes []string) ([]oracleScore, error) {
	wrong := func(err error) ([]oracleScore, error) {
		return nil, fmt.Errorf("score %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	f, err := w.frameworkOf(pod)
	if err != nil {
		return wrong(err)
	}
	state := framework.NewCycleState()
	verdicts, err := w.filter(ctx, f, state, pod, nodes)
	if err != nil {
		return wrong(err)
	}
	var left []fwk.NodeInfo
	for _, v := range verdicts {
		if v.OK {
			info, _ := w.snapshot.Get(v.Node) // filter has found it
			left = append(left, info)
		}
	}
	if len(left) == 0 {
		return nil, nil
	}
	if status := f.RunPreScorePlugins(ctx, state, pod, left); !status.IsSuccess() {
		return wrong(status.AsError())
	}
	all, status := f.RunScorePlugins(ctx, state, pod, left)
	if !status.IsSuccess() {
		return wrong(status.AsError())
	}
	var scores []oracleScore
	for _, n := range all {
		s := oracleScore{Node: n.Name, Total: n.TotalScore, Plugins: map[string]int64{}}
		for _, plugin := range n.Scores {
			s.Plugins[plugin.Name] = plugin.Score
		}
		scores = append(scores, s)
	}
	return scores, nil
}

func verdictOf(node string, status *fwk.Status) oracleVerdict {
	if status.IsSuccess() {
		return oracleVerdict{Node: node, OK: true}
	}
	return oracleVerdict{Node: node, Plugin: status.Plugin(), Message: status.Message()}
}

func refuseAll(nodes []string, plugin string, status *fwk.Status) []oracleVerdict {
	verdicts := make([]oracleVerdict, 0, len(nodes))
	for _, name := range nodes {
		verdicts = append(verdicts, oracleVerdict{Node: name, Plugin: plugin, Message: status.Message()})
	}
	return verdicts
}

func join(plugins sets.Set[string]) string { return strings.Join(sets.List(plugins), "+") }
