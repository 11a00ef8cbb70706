package scenario

import (
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/overlay"
)

// defaultClass is the node class of pools and types that do not name a class.
const defaultClass = "default"

// builder makes a snapshot, statement by statement.
type builder struct {
	snapshot engine.Snapshot
	course   Course
	// ofEC2 means that types come from the built-in catalog of EC2.
	ofEC2 bool
}

func newBuilder() *builder {
	return &builder{snapshot: engine.Snapshot{Now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}}
}

// build executes one statement.
func (b *builder) build(words []word) error {
	switch words[0].text {
	case "now":
		return b.now(words)
	case "wait":
		return b.wait(words)
	case "node-overhead-price":
		return b.nodeOverheadPrice(words)
	}
	if len(words) < 2 {
		return words[0].errorf("a name is missing")
	}
	name := words[1]
	if strings.ContainsAny(name.text, "=(") {
		return name.errorf("this should be the name of the %s", words[0].text)
	}
	r := &reader{of: words[0].text, words: words[2:]}
	switch words[0].text {
	case "pool":
		return b.pool(name, r)
	case "class":
		return b.class(name, r)
	case "type":
		return b.instanceType(name, r)
	case "catalog":
		return b.catalog(name, r)
	case "quota":
		return b.cloudQuota(name, r)
	case "overlay":
		return b.overlay(name, r)
	case "buffer":
		return b.buffer(name, r)
	case "request":
		return b.request(name, r)
	case "gang":
		return b.gang(name, r)
	case "node":
		return b.node(name, r)
	case "claim":
		return b.claim(name, r)
	case "pod", "pods":
		return b.pods(name, r)
	case "daemonset":
		return b.daemonSet(name, r)
	case "pdb":
		return b.disruptionBudget(name, r)
	case "order":
		return b.order(name, r)
	case "delete":
		return b.delete(name, r)
	case "patch":
		return b.patch(name, r)
	}
	return b.buildOther(words[0], name, r)
}

// buildOther executes statements about objects that pods refer to.
func (b *builder) buildOther(statement, name word, r *reader) error {
	switch statement.text {
	case "namespace":
		return b.namespace(name, r)
	case "service":
		return b.service(name, r)
	case "replicaset":
		return b.owner("ReplicaSet", name, r)
	case "statefulset":
		return b.owner("StatefulSet", name, r)
	case "replicationcontroller":
		return b.owner("ReplicationController", name, r)
	case "storageclass":
		return b.storageClass(name, r)
	case "volume":
		return b.volume(name, r)
	case "disk":
		return b.disk(name, r)
	case "deviceclass":
		return b.deviceClass(name, r)
	case "deployment":
		return b.workload(Deployment, name, r)
	case "cronjob":
		return b.workload(CronJob, name, r)
	case "cloud":
		return b.cloud(name, r)
	case "fault":
		return b.fault(name, r)
	case "commitment":
		return b.commitment(name, r)
	}
	return statement.errorf("unknown statement; there are pool, class, type, catalog, overlay, buffer, request, gang, node, claim, pod, pods, " +
		"daemonset, pdb, namespace, service, replicaset, statefulset, replicationcontroller, storageclass, volume, " +
		"disk, deviceclass, deployment, cronjob, cloud, fault, order, delete, patch, now, wait, node-overhead-price, commitment, yaml; and the commands provision, disrupt, drift, " +
		"progress, resize, check, apply, life")
}

func (b *builder) nodeOverheadPrice(words []word) error {
	if len(words) != 2 {
		return words[0].errorf("write it as node-overhead-price 0.01")
	}
	usd, err := strconv.ParseFloat(words[1].text, 64)
	if err != nil {
		return words[1].errorf("this is no price in USD per hour and node")
	}
	if err := engine.CheckNodeOverheadPrice(usd); err != nil {
		return words[1].errorf("%v", err)
	}
	b.snapshot.NodeOverheadPrice = usd
	return nil
}

func (b *builder) now(words []word) error {
	if len(words) != 2 {
		return words[0].errorf("write the time as now 2026-01-31T12:00:00Z")
	}
	t, err := time.Parse(time.RFC3339, words[1].text)
	if err != nil {
		return words[1].errorf("this is no time of the form 2026-01-31T12:00:00Z")
	}
	b.snapshot.Now = t.UTC()
	return nil
}

func (b *builder) wait(words []word) error {
	if len(words) != 2 {
		return words[0].errorf("write how long, as in wait 5m")
	}
	d, err := time.ParseDuration(words[1].text)
	if err != nil {
		return words[1].errorf("this is not a duration such as 30s or 1h30m")
	}
	b.snapshot.Now = b.snapshot.Now.Add(d)
	return nil
}

// ago returns the time that is an age before now.
func (b *builder) ago(age time.Duration) metav1.Time { return metav1.NewTime(b.snapshot.Now.Add(-age)) }

// meta returns the metadata of an object of the scenario. The UID follows from the name.
func (b *builder) meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uidOf(namespace, name), ResourceVersion: "1"}
}

func uidOf(namespace, name string) types.UID {
	if namespace == "" {
		return types.UID(name)
	}
	return types.UID(namespace + "/" + name)
}

// classRef returns the reference to a class of the scenario. Kind/name names a kind other than KWOKNodeClass.
func classRef(name string) *v1.NodeClassReference {
	kind, rest, ok := strings.Cut(name, "/")
	if !ok {
		return &v1.NodeClassReference{Group: kwokv1alpha1.GroupVersion.Group, Kind: "KWOKNodeClass", Name: name}
	}
	return &v1.NodeClassReference{Group: groupOfClass(kind), Kind: kind, Name: rest}
}

// groupOfClass returns the API group of a kind of node class.
func groupOfClass(kind string) string {
	switch kind {
	case "EC2NodeClass":
		return "karpenter.k8s.aws"
	case autoModeKind:
		return autoModeGroup
	case "AKSNodeClass":
		return "karpenter.azure.com"
	case "ClusterAPINodeClass":
		return "karpenter.cluster.x-k8s.io"
	}
	return kwokv1alpha1.GroupVersion.Group
}

// classNamed finds a class, or adds it.
func (b *builder) classNamed(name string) *engine.Class {
	ref := *classRef(name)
	i := slices.IndexFunc(b.snapshot.Classes, func(c engine.Class) bool { return c.Ref == ref })
	if i < 0 {
		b.snapshot.Classes = append(b.snapshot.Classes, engine.Class{Ref: ref})
		i = len(b.snapshot.Classes) - 1
	}
	return &b.snapshot.Classes[i]
}

// typeNamed finds an instance type for a pool, with the corrections of the overlays so far.
func (b *builder) typeNamed(pool *v1.NodePool, name string) *engine.InstanceType {
	s := b.snapshot
	overlay.Apply(&s)
	return findTypeFor(&s, pool.Spec.Template.Spec.NodeClassRef, pool.Name, name)
}

func findType(s *engine.Snapshot, ref *v1.NodeClassReference, name string) *engine.InstanceType {
	return findTypeFor(s, ref, "", name)
}

// findTypeFor is like findType, for the types that are sold to a pool, with the corrections of overlays for it.
func findTypeFor(s *engine.Snapshot, ref *v1.NodeClassReference, pool, name string) *engine.InstanceType {
	class := kube.ClassFor(s, ref, pool)
	if class == nil {
		return nil
	}
	types := class.InstanceTypes
	if j := slices.IndexFunc(types, func(t engine.InstanceType) bool { return t.Name == name }); j >= 0 {
		return &types[j]
	}
	return nil
}

// poolNamed finds a pool; it returns nil if there is none.
func poolNamed(s *engine.Snapshot, name string) *v1.NodePool {
	if i := slices.IndexFunc(s.NodePools, func(p *v1.NodePool) bool { return p.Name == name }); i >= 0 {
		return s.NodePools[i]
	}
	return nil
}

// without returns the list without the object with this name. ok is false if there is none.
func without[T metav1.Object](list []T, namespace, name string) (rest []T, ok bool) {
	rest = slices.DeleteFunc(slices.Clone(list), func(o T) bool {
		return o.GetNamespace() == namespace && o.GetName() == name
	})
	return rest, len(rest) < len(list)
}
