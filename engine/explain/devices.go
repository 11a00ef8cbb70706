package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/accelerator"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/offering"
)

// DeviceRecord lists instance types with equal accelerators: the devices that their nodes will show, the devices in hardware, and the source.
type DeviceRecord struct {
	InstanceTypes []string `json:"instanceTypes"`
	Shows         string   `json:"shows"`
	Hardware      string   `json:"hardware"`
	Source        string   `json:"source"`
}

// inHardware is the source if neither a node nor a setting gives other devices.
const inHardware = "what the machine has in hardware"

// readDevices records the devices that the pool's instance types are planned with. It records none if the pool also has types without
// accelerators, unless some type's devices come from a setting or a node.
func (p *PoolExplanation) readDevices(pool *v1.NodePool, class *engine.Class) {
	var told bool
	only := true
	for _, t := range offering.Types(pool, class, func(*engine.InstanceType) bool { return true }) {
		if t.Devices == nil && accelerator.Of(t.Capacity) == nil {
			only = false
			continue
		}
		told = told || t.Devices != nil
		p.addDevices(t)
	}
	if !told && !only {
		p.Devices = nil
	}
	for i := range p.Devices {
		slices.SortFunc(p.Devices[i].InstanceTypes, kube.CompareNaturally)
	}
	slices.SortStableFunc(p.Devices, func(a, b DeviceRecord) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), kube.CompareNaturally(a.InstanceTypes[0], b.InstanceTypes[0]))
	})
}

// DeviceProblems lists the settings for shared accelerators in the pool's class or template that cannot work, each with its instance types.
func DeviceProblems(pool *v1.NodePool, class *engine.Class) (out []string) {
	of := map[string][]string{}
	for _, t := range offering.Types(pool, class, func(t *engine.InstanceType) bool {
		return t.Devices != nil && t.Devices.Problem != "" && t.Devices.Node == ""
	}) {
		of[t.Devices.Problem] = append(of[t.Devices.Problem], t.Name)
	}
	for _, problem := range slices.Sorted(maps.Keys(of)) {
		slices.SortFunc(of[problem], kube.CompareNaturally)
		out = append(out, fmt.Sprintf("sharing of GPUs: %s; %s: machines are planned with whole GPUs", problem, engine.AtMost(of[problem], 3)))
	}
	return out
}

func (p *PoolExplanation) addDevices(t *engine.InstanceType) {
	r := DeviceRecord{Shows: accelerator.Words(t.Capacity), Source: inHardware}
	r.Hardware = r.Shows
	if d := t.Devices; d != nil {
		r.Hardware, r.Source = accelerator.Words(d.Physical), d.Source
		if d.Node != "" {
			r.Source = fmt.Sprintf("node %s shows it", d.Node)
			if d.Source != "" {
				r.Source += fmt.Sprintf(", against %s, which says %s", d.Source, accelerator.Words(d.Said))
			}
		}
	}
	i := slices.IndexFunc(p.Devices, func(o DeviceRecord) bool {
		return o.Shows == r.Shows && o.Hardware == r.Hardware && o.Source == r.Source
	})
	if i < 0 {
		i = len(p.Devices)
		p.Devices = append(p.Devices, r)
	}
	p.Devices[i].InstanceTypes = append(p.Devices[i].InstanceTypes, t.Name)
}

// countHardware adds to each limit on accelerators the number in hardware of the pool's machines, because limits count the devices that nodes
// show.
func (p *PoolExplanation) countHardware(s *engine.Snapshot, pool *v1.NodePool) {
	if !slices.ContainsFunc(p.Limits, func(l ResourceUse) bool { return accelerator.Maker(l.Resource) != "" }) {
		return
	}
	types, has, shared := kube.NewTypeIndex(s), corev1.ResourceList{}, false
	kinds := map[string]string{}
	for _, n := range s.Nodes {
		kinds[n.Spec.ProviderID] = n.Labels[corev1.LabelInstanceTypeStable]
	}
	delete(kinds, "") // a node without a provider ID has no type here
	for _, c := range s.NodeClaims {
		if c.Labels[v1.NodePoolLabelKey] != pool.Name || c.DeletionTimestamp != nil {
			continue
		}
		list, kind := c.Status.Capacity, cmp.Or(kinds[c.Status.ProviderID], c.Labels[corev1.LabelInstanceTypeStable])
		if t := types.Find(c.Spec.NodeClassRef, pool.Name, kind); t != nil && t.Devices != nil {
			list, shared = t.Devices.Physical, true
		}
		kube.AddList(has, accelerator.Of(list))
	}
	for i := range p.Limits {
		if l := &p.Limits[i]; shared && accelerator.Maker(l.Resource) != "" {
			q := has[cmp.Or(accelerator.Whole(l.Resource), l.Resource)]
			l.Hardware = q.String()
		}
	}
}

// notDivided returns warnings for a pod that requests shared devices of the instance type. It returns nil for other pods.
func notDivided(pod *corev1.Pod, t *engine.InstanceType) []string {
	if t == nil || t.Devices == nil || t.Devices.Slices {
		return nil
	}
	var notes []string
	for _, name := range slices.Sorted(maps.Keys(accelerator.Of(kube.PodRequests(pod)))) {
		if !isShared(t, name) {
			continue
		}
		if most := mostOfOne(pod, name); most.CmpInt64(1) > 0 {
			notes = append(notes, fmt.Sprintf("a container asks for %s %s, and these are shared: NVIDIA's plugin may refuse more than one (failRequestsGreaterThanOne), the pod then ends as UnexpectedAdmissionError", most.String(), name))
		}
		text := "no share of a device has memory of its own, unless it is a MIG slice"
		if m := accelerator.ModelOf(t); m.MemoryMiB > 0 {
			text += fmt.Sprintf(": all pods on a %s share its %s", strings.ToUpper(m.Name), engine.AmountWords(corev1.ResourceMemory, *resource.NewQuantity(int64(m.MemoryMiB)<<20, resource.BinarySI)))
		}
		notes = append(notes, text)
	}
	return notes
}

// isShared reports whether a resource counts shares of devices that pods use in turn.
func isShared(t *engine.InstanceType, name corev1.ResourceName) bool {
	if strings.HasSuffix(string(name), ".shared") {
		return true
	}
	has, shows := t.Devices.Physical[name], t.Capacity[name]
	return shows.Cmp(has) > 0 && accelerator.Whole(name) == ""
}

// mostOfOne returns the largest request of one container of the pod.
func mostOfOne(pod *corev1.Pod, name corev1.ResourceName) (most resource.Quantity) {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if q := list[i].Resources.Requests[name]; q.Cmp(most) > 0 {
				most = q
			}
		}
	}
	return most
}
