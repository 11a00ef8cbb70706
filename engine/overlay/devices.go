package overlay

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/accelerator"
)

// shows holds the accelerators that nodes of a type will show, and the source of that list.
type shows struct {
	list   corev1.ResourceList
	source engine.DeviceSource
}

func cutsDevices(pool *v1.NodePool) bool {
	return pool.Spec.Template.Labels[accelerator.MIGConfigLabel] != ""
}

// devices returns the accelerators that nodes of a type will show. It returns nil if they are those of the node class. Overlays have precedence,
// then the node class, then the pool's MIG layout. If a node was planned with the same list and shows another one, the node's list is used.
func (v *view) devices(i int) *shows {
	t := &v.sold.types[i]
	physical := accelerator.Of(t.Capacity)
	if t.Devices != nil {
		physical = t.Devices.Physical
	}
	out := v.said(i, physical)
	if seen := v.contradiction(t.Name, out, physical); seen != nil {
		out.source.Said, out.source.Node, out.list = out.list, seen.Node, seen.Shown
	} else if out.source.Source == "" || t.Devices != nil && out.source.Source == t.Devices.Source {
		return nil
	}
	out.source.Physical = physical
	return out
}

func (v *view) said(i int, physical corev1.ResourceList) *shows {
	t := &v.sold.types[i]
	if list, names := v.overlaid(i); len(names) > 0 {
		return &shows{list, engine.DeviceSource{Source: "NodeOverlay " + strings.Join(names, " and NodeOverlay ")}}
	}
	if t.Devices != nil && (t.Devices.Problem == "" || v.labels[accelerator.MIGConfigLabel] == "") {
		return &shows{accelerator.Of(t.Capacity), engine.DeviceSource{Source: t.Devices.Source, Slices: t.Devices.Slices, Problem: t.Devices.Problem}}
	}
	layout := v.labels[accelerator.MIGConfigLabel]
	if layout == "" || len(physical) == 0 {
		return &shows{list: physical}
	}
	model := accelerator.ModelOf(t)
	gpus := physical[accelerator.GPU]
	list, known := accelerator.MIG(layout, v.labels[accelerator.MIGStrategyLabel], model, int(gpus.Value()))
	source := engine.DeviceSource{Source: fmt.Sprintf("label %s=%s of the pool", accelerator.MIGConfigLabel, layout), Slices: known && list != nil}
	if !known {
		source.Problem = fmt.Sprintf("nobody knows what label %s=%s of the pool makes of a GPU %q: say it in a NodeOverlay", accelerator.MIGConfigLabel, layout, model.Name)
		source.Source = fmt.Sprintf("the catalog, because nobody knows what %s=%s makes of a GPU %q (say it in a NodeOverlay)", accelerator.MIGConfigLabel, layout, model.Name)
	}
	if list == nil {
		list = physical
	}
	return &shows{list, source}
}

// overlaid returns the type's accelerators with the amounts that overlays set, and the names of these overlays. If an overlay sets a resource
// for parts of devices, the resource for whole devices is removed unless an overlay sets it too.
func (v *view) overlaid(i int) (list corev1.ResourceList, names []string) {
	for name, p := range v.added[i] {
		if accelerator.Maker(name) == "" {
			continue
		}
		if list == nil {
			list = accelerator.Of(v.sold.types[i].Capacity)
			if list == nil {
				list = corev1.ResourceList{}
			}
		}
		list[name] = p.overlay.Spec.Capacity[name]
		if !slices.Contains(names, p.overlay.Name) {
			names = append(names, p.overlay.Name)
		}
	}
	for name, p := range v.added[i] {
		whole, parts := accelerator.Whole(name), p.overlay.Spec.Capacity[name]
		if whole != "" && v.added[i][whole] == nil && !parts.IsZero() {
			delete(list, whole)
		}
	}
	slices.Sort(names)
	return list, names
}

// contradiction returns the newest node that was planned with the list in `said`, if this node shows another list. If not, it returns nil. A node
// that only lacks devices of its hardware does not count. If the list has no source, the planned list does not matter.
func (v *view) contradiction(kind string, said *shows, physical corev1.ResourceList) *Sighting {
	for i := range v.seen {
		x := &v.seen[i]
		if x.Type != kind || said.source.Source != "" && !accelerator.Same(x.Planned, said.list) {
			continue // the node was planned with another list, which it may show
		}
		if accelerator.Same(x.Shown, said.list) {
			return nil
		}
		if !accelerator.Lacking(x.Shown, physical) {
			return x
		}
	}
	return nil
}

// write sets the accelerators that nodes of a type will show, in a copy of the type.
func (d *shows) write(t *engine.InstanceType) {
	capacity := maps.Clone(t.Capacity)
	for name := range capacity {
		if accelerator.Maker(name) != "" {
			capacity[name] = *resource.NewQuantity(0, resource.DecimalSI)
		}
	}
	for name, q := range d.list {
		capacity[name] = q.DeepCopy()
	}
	source := d.source
	t.Capacity, t.Devices = capacity, &source
}
