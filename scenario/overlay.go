package scenario

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "tenon.sh/api/v1"
	"tenon.sh/api/v1alpha1"
	"tenon.sh/engine"
	"tenon.sh/engine/overlay"
)

const overlayWords = "price= adjust= weight= interruptions= interruption-cost=, resources such as nvidia.com/gpu=4, and requirements: type in (a,b)"

// overlay reads overlay NAME with its words.
func (b *builder) overlay(name word, r *reader) error {
	if slices.ContainsFunc(b.snapshot.NodeOverlays, func(o *v1alpha1.NodeOverlay) bool { return o.Name == name.text }) {
		return name.errorf("there is an overlay of this name already")
	}
	o := &v1alpha1.NodeOverlay{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeOverlay"},
		ObjectMeta: b.meta("", name.text),
		Spec:       v1alpha1.NodeOverlaySpec{Requirements: []v1alpha1.Requirement{}},
	}
	o.Generation = 1
	for r.more() {
		if err := b.overlayWord(o, r); err != nil {
			return err
		}
	}
	b.snapshot.NodeOverlays = append(b.snapshot.NodeOverlays, o)
	return nil
}

func (b *builder) overlayWord(o *v1alpha1.NodeOverlay, r *reader) error {
	if r.atRequirement() {
		req, err := r.requirement()
		o.Spec.Requirements = append(o.Spec.Requirements, v1alpha1.Requirement{Key: req.Key, Operator: req.Operator, Values: req.Values})
		return err
	}
	w := r.next()
	key, value := w.cut()
	if w.isResource() {
		return w.addResource(&o.Spec.Capacity)
	}
	switch key {
	case "price":
		o.Spec.Price = &value
	case "adjust":
		o.Spec.PriceAdjustment = &value
	case "interruptions":
		metav1.SetMetaDataAnnotation(&o.ObjectMeta, v1.InterruptionRateAnnotationKey, value)
	case "interruption-cost":
		metav1.SetMetaDataAnnotation(&o.ObjectMeta, v1.InterruptionCostAnnotationKey, value)
	case "weight":
		n, err := w.number()
		weight := int32(n)
		o.Spec.Weight = &weight
		return err
	default:
		return r.unknown(w, overlayWords)
	}
	return nil
}

// overlaid applies the overlays to the classes and notes the effect of each, or the reason why it has none.
func (m *manifest) overlaid(s *engine.Snapshot) {
	for _, v := range overlay.Apply(s) {
		if v.Reason != "" {
			m.note("NodeOverlay %s left out: %s", v.Overlay.Name, v.Message)
			continue
		}
		m.note("NodeOverlay %s: %s", v.Overlay.Name, v.Message)
	}
}

// addOverlay reads a NodeOverlay of a file.
func (m *manifest) addOverlay(u *unstructured.Unstructured) error {
	if err := m.checked(u); err != nil {
		return err
	}
	return decode(m, u, &m.snapshot.NodeOverlays)
}
