package workload

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// The kinds of cost workloads.
const (
	Web    = "web"    // small pods
	Mem    = "mem"    // 6 to 16 GiB for each core
	CPU    = "cpu"    // at most 1.5 GiB for each core
	Mix    = "mix"    // log-normal distribution of both
	Spread = "spread" // the same, and 35 % of the workloads spread over zones, 15 % have one pod per host, 10 % spread over hosts
	GPU    = "gpu"    // 30 % of the workloads request 1 to 4 GPUs
)

// CostCase is one of the workloads for which plans' prices are measured.
type CostCase struct {
	Kind string
	Pods int
}

// Name returns the name in published results, such as mix-2000.
func (c CostCase) Name() string { return fmt.Sprintf("%s-%d", c.Kind, c.Pods) }

// CostCases lists the seven workloads.
func CostCases() []CostCase {
	return []CostCase{{Web, 2000}, {Mem, 2000}, {CPU, 2000}, {Mix, 2000}, {Spread, 2000}, {GPU, 1000}, {Mix, 10000}}
}

// Cost returns a cluster without nodes, with pending pods of one kind and one pool. The pool may buy Catalog's types with Linux, amd64 and
// the families c, m and r (for gpu g too), with the given capacity types. Cost panics if the kind does not exist.
func Cost(kind string, count int, seed uint64, capacityTypes ...string) *engine.Snapshot {
	kinds := Catalog()
	letters := "cmr"
	if kind == GPU {
		letters += "g"
	}
	s := newSnapshot(kinds, []v1.Requirement{
		{Key: corev1.LabelOSStable, Operator: v1.In, Values: []string{"linux"}},
		{Key: corev1.LabelArchStable, Operator: v1.In, Values: []string{v1.ArchitectureAMD64}},
		{Key: kwokv1alpha1.InstanceFamilyLabelKey, Operator: v1.In, Values: families(kinds, letters)},
		{Key: v1.CapacityTypeLabelKey, Operator: v1.In, Values: capacityTypes},
	})
	d := &draw{mersenne: newMersenne(fmt.Sprintf("%s-%d", kind, seed)), kind: kind}
	for len(s.Pods) < count {
		shape, replicas := d.workload()
		for range min(replicas, count-len(s.Pods)) {
			n := len(s.Pods)
			s.Pods = append(s.Pods, shape.pod(numbered(kind, n), numbered(fmt.Sprintf("%s-%d", kind, seed), n)))
		}
	}
	return s
}

// draw makes the workloads of one kind, one after another. The order of its draws determines the result.
type draw struct {
	*mersenne
	kind string
	apps int
}

// workload returns the shape and the number of the next workload's pods.
func (d *draw) workload() (shape, int) {
	d.apps++
	app := d.kind + "-" + strconv.Itoa(d.apps)
	replicas := choose(d.mersenne, 1, 2, 3, 3, 5, 8, 12, 20, 40)
	cpu, memory := d.size()
	gpus := int64(0)
	if d.kind == GPU && d.fraction() < 0.3 {
		gpus, replicas = choose[int64](d.mersenne, 1, 1, 1, 2, 4), min(replicas, 6)
	}
	s := newShape(map[string]string{"app": app}, cpu, memory, gpus)
	if d.kind == Spread {
		d.constrain(&s, app)
	}
	return s, replicas
}

// size returns a pod's requests, in thousandths of a core and MiB.
func (d *draw) size() (cpu, memory int64) {
	switch d.kind {
	case Web:
		return choose[int64](d.mersenne, 100, 250, 250, 500, 500, 1000, 2000), choose[int64](d.mersenne, 128, 256, 512, 512, 1024, 2048)
	case Mem:
		cpu = choose[int64](d.mersenne, 250, 500, 1000, 2000, 4000)
		return cpu, cpu * choose[int64](d.mersenne, 6, 8, 10, 14, 16)
	case CPU:
		cpu = choose[int64](d.mersenne, 500, 1000, 2000, 4000, 7000)
		return cpu, int64(float64(cpu) * choose(d.mersenne, 0.25, 0.5, 1, 1.5))
	case GPU:
		return choose[int64](d.mersenne, 500, 2000, 4000), choose[int64](d.mersenne, 1024, 4096, 16384)
	case Mix, Spread:
		cpu = max(50, min(int64(d.logNormal(6.2, 1)), 16000))
		return cpu, max(64, min(int64(float64(cpu)*d.logNormal(0.7, 0.7)), 120000))
	}
	panic("there is no cost workload " + d.kind)
}

// constrain adds the topology constraints of a workload.
func (d *draw) constrain(s *shape, app string) {
	own := selecting("app", app)
	switch x := d.fraction(); {
	case x < 0.35:
		s.spread = spreadOver(corev1.LabelTopologyZone, 1, own)
	case x < 0.5:
		s.affinity = apartOn(corev1.LabelHostname, own)
	case x < 0.6:
		s.spread = spreadOver(corev1.LabelHostname, 2, own)
	}
}
