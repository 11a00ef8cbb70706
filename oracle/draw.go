package oracle

import (
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"tenon.sh/engine"
)

// Draw returns a random small cluster that depends only on the seed and is full of conflicts. It has 5 to 40 waiting pods, of workloads with all
// kinds of demands on nodes. It has 3 to 12 nodes in all stages of their life, and 10 to 20 instance types. All objects are valid for an API
// server, and have the fields that admission adds.
func Draw(seed uint64) *engine.Snapshot {
	d := newDrawing(seed, 0)
	d.zones = []string{"zone-a", "zone-b", "zone-c", "zone-d"}[:2+d.IntN(3)]
	d.theme = d.IntN(themes)
	d.namespaces()
	d.deviceClass()
	d.catalog()
	d.pools()
	d.storageClasses()
	d.nodes()
	d.daemonSets()
	d.workloads()
	d.replicas(seed)
	d.nominations()
	return d.s
}

// Constraints returns the scheduler's default spread constraints in that cluster. Most clusters have none.
func Constraints(seed uint64) []corev1.TopologySpreadConstraint {
	d := newDrawing(seed, 1)
	zone := corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule}
	host := corev1.TopologySpreadConstraint{MaxSkew: 2, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway}
	switch d.IntN(8) {
	case 0:
		return []corev1.TopologySpreadConstraint{zone}
	case 1:
		return []corev1.TopologySpreadConstraint{zone, host}
	case 2:
		return []corev1.TopologySpreadConstraint{host}
	}
	return nil
}

// A drawing is a cluster that is being made. Its parts are made in a fixed order, each with random numbers.
type drawing struct {
	*rand.Rand
	s     *engine.Snapshot
	zones []string
	theme int          // a feature that many workloads of this cluster use, so that they conflict
	hosts []*drawnNode // nodes that can hold running pods
	apps  []*app
	// devices is true if a node has devices that it does not report yet.
	devices bool
	made    int // the number of generated names
}

func newDrawing(seed, stream uint64) *drawing {
	return &drawing{
		Rand: rand.New(rand.NewPCG(seed, stream)),
		s:    &engine.Snapshot{Now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)},
	}
}

// chance returns true in one of n cases.
func (d *drawing) chance(n int) bool { return d.IntN(n) == 0 }

func pick[T any](d *drawing, from ...T) T { return from[d.IntN(len(from))] }

// some returns between least and most of the values, in their order.
func some(d *drawing, least, most int, from []string) []string {
	left := min(least+d.IntN(most-least+1), len(from))
	var out []string
	for i, v := range from {
		if d.IntN(len(from)-i) < left {
			out = append(out, v)
			left--
		}
	}
	return out
}

// meta returns the metadata of an object. Its UID follows from its name.
func (d *drawing) meta(namespace, name string) metav1.ObjectMeta {
	uid := name
	if namespace != "" {
		uid = namespace + "/" + name
	}
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(uid), ResourceVersion: "1",
		CreationTimestamp: metav1.NewTime(d.s.Now.Add(-time.Duration(1+d.IntN(600)) * time.Minute)),
	}
}

func (d *drawing) name(stem string) string {
	d.made++
	return fmt.Sprintf("%s-%d", stem, d.made)
}

const teamLabel = "team"

// namespaces makes namespaces with labels for the selectors of affinity terms.
func (d *drawing) namespaces() {
	for _, name := range []string{"default", "shop", "data"} {
		n := &corev1.Namespace{ObjectMeta: d.meta("", name)}
		n.Labels = map[string]string{corev1.LabelMetadataName: name, teamLabel: pick(d, "blue", "green")}
		d.s.Namespaces = append(d.s.Namespaces, n)
	}
	if d.chance(2) {
		l := &corev1.LimitRange{ObjectMeta: d.meta("shop", "defaults")}
		l.Spec.Limits = []corev1.LimitRangeItem{{
			Type:           corev1.LimitTypeContainer,
			DefaultRequest: corev1.ResourceList{corev1.ResourceCPU: milli(100 * (1 + d.IntN(4))), corev1.ResourceMemory: mebi(64 * (1 + d.IntN(4)))},
		}}
		d.s.LimitRanges = append(d.s.LimitRanges, l)
	}
}

// deviceClass makes, in some clusters, an extended resource that counts the devices of drivers.
func (d *drawing) deviceClass() {
	if !d.chance(2) {
		return
	}
	c := &resourcev1.DeviceClass{ObjectMeta: d.meta("", "accelerators")}
	c.Spec.ExtendedResourceName = ptr.To(string(accelerator))
	d.s.DeviceClasses = append(d.s.DeviceClasses, c)
}

func (d *drawing) namespace() string { return pick(d, "default", "default", "shop", "data") }

func milli(n int) resource.Quantity { return *resource.NewMilliQuantity(int64(n), resource.DecimalSI) }
func mebi(n int) resource.Quantity  { return *resource.NewQuantity(int64(n)<<20, resource.BinarySI) }
func count(n int) resource.Quantity { return *resource.NewQuantity(int64(n), resource.DecimalSI) }
