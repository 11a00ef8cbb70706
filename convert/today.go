package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	v1 "tenon.sh/api/v1"
)

// Objects of today's API with fields or values of older APIs are mended, because the API server would refuse them or drop unknown fields.

// mend notes a change in an object of today's API, and marks the object to be written anew.
func (c *conversion) mend(kind NoteKind, o *object, format string, args ...any) {
	c.note(kind, o, format, args...)
	if !o.mended {
		o.mended, o.document.changed = true, true
		c.mended++
	}
}

// poolOfToday mends a v1 NodePool. The pool may share its class with older pools, or contain kubelet settings that move to the class.
func (c *conversion) poolOfToday(o *object) error {
	c.renameIn(o)
	spec := field(o.node, "spec")
	if err := c.mendProvisioner(o, spec); err != nil {
		return err
	}
	inner := field(field(spec, "template"), "spec")
	c.mendDisruption(o, spec)
	inner = cmp.Or(field(field(spec, "template"), "spec"), inner)
	c.mendClassRef(o, inner)
	if take(inner, "resources").key != nil {
		c.mend(Lost, o, "spec.template.spec.resources: there is no such field any more")
	}
	if inner != nil && field(inner, "requirements") == nil {
		put(inner, "requirements", is("", list()))
		c.mend(Renamed, o, "spec.template.spec.requirements is written down, empty as it was: a pool of today has to have it")
	}
	kubelet := take(inner, "kubelet")
	if kubelet.key != nil {
		c.mend(Renamed, o, "spec.template.spec.kubelet became spec.kubelet of the node class")
	}
	if kept, err := c.keptKubelet(o); err != nil {
		return err
	} else if kubelet.value == nil {
		kubelet.value = kept
	}
	c.pools = append(c.pools, pool{object: o, ref: field(inner, "nodeClassRef"), kubelet: kubelet.value})
	return nil
}

// keptKubelet returns the kubelet settings that Karpenter 1.0 kept in annotations when it converted a v1beta1 pool, nil if there are none. It
// removes these annotations, because no program reads them any more.
func (c *conversion) keptKubelet(o *object) (*yaml.Node, error) {
	const kept, ref = "compatibility.karpenter.sh/v1beta1-kubelet-conversion", "compatibility.karpenter.sh/v1beta1-nodeclass-reference"
	metadata := field(o.node, "metadata")
	annotations := field(metadata, "annotations")
	old := take(annotations, kept)
	if old.key == nil && take(annotations, ref).key == nil {
		return nil, nil
	}
	take(annotations, ref)
	if len(pairs(annotations)) == 0 {
		take(metadata, "annotations")
	}
	if old.key == nil {
		c.mend(Renamed, o, "annotation %s is taken out: nobody reads it any more", ref)
		return nil, nil
	}
	var text yaml.Node
	if err := readOnly([]byte(scalar(old.value)), &text); err != nil || len(text.Content) == 0 || text.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("annotation %s is %q: it must hold the fields of a kubelet as JSON", kept, scalar(old.value))
	}
	c.mend(Renamed, o, "annotation %s became spec.kubelet of the node class", kept)
	return plain(text.Content[0]), nil
}

// plain removes the style and the line numbers from a value.
func plain(n *yaml.Node) *yaml.Node {
	n.Style, n.Line, n.Column = 0, 0, 0
	for _, child := range n.Content {
		plain(child)
	}
	return n
}

// mendProvisioner moves fields that a Provisioner has directly below its spec to their places in a NodePool.
func (c *conversion) mendProvisioner(o *object, spec *yaml.Node) error {
	move := func(name, to string, path ...string) {
		if p := take(spec, name); p.key != nil {
			at := spec
			for _, step := range path {
				at = below(at, step)
			}
			put(at, to, p)
			c.mend(Renamed, o, "spec.%s became spec.%s.%s", name, strings.Join(path, "."), to)
		}
	}
	for _, name := range []string{"labels", "annotations"} {
		move(name, name, "template", "metadata")
	}
	for _, name := range []string{"requirements", "taints", "startupTaints"} {
		move(name, name, "template", "spec")
	}
	if limits := field(spec, "limits"); field(limits, "resources") != nil {
		for _, p := range pairs(take(limits, "resources").value) {
			put(limits, p.key.Value, p)
		}
		c.mend(Renamed, o, "spec.limits.resources became spec.limits")
	}
	if field(spec, "providerRef") != nil {
		ref, _ := c.providerRef(o, spec)
		set(below(below(spec, "template"), "spec"), "nodeClassRef", ref)
		c.mend(Renamed, o, "spec.providerRef became spec.template.spec.nodeClassRef")
	}
	move("kubeletConfiguration", "kubelet", "template", "spec")
	ttl := take(spec, "ttlSecondsUntilExpired")
	switch seconds, err := wholeSeconds(ttl); {
	case err != nil:
		return err
	case seconds != "":
		put(below(below(spec, "template"), "spec"), "expireAfter", ttl.with(seconds))
		c.mend(Renamed, o, "spec.ttlSecondsUntilExpired became spec.template.spec.expireAfter")
	}
	if field(spec, "consolidation") == nil && field(spec, "ttlSecondsAfterEmpty") == nil {
		return nil
	}
	disruption, err := c.provisionerDisruption(o, spec)
	if err != nil {
		return err
	}
	for _, p := range pairs(disruption) {
		set(below(spec, "disruption"), p.key.Value, p.value)
	}
	c.mend(Renamed, o, "spec.consolidation and spec.ttlSecondsAfterEmpty became spec.disruption")
	return nil
}

// mendDisruption renames policies and reasons, and moves expireAfter.
func (c *conversion) mendDisruption(o *object, spec *yaml.Node) {
	disruption := field(spec, "disruption")
	policy := field(disruption, "consolidationPolicy")
	if now := string(v1.WhenEmptyOrUnderutilized); scalar(policy) == "WhenUnderutilized" {
		c.mend(Renamed, o, "consolidationPolicy %s became %s", policy.Value, now)
		policy.Value = now
	}
	for _, budget := range items(field(disruption, "budgets")) {
		for _, reason := range items(field(budget, "reasons")) {
			for _, now := range v1.DisruptionReasons() {
				if strings.EqualFold(reason.Value, string(now)) && reason.Value != string(now) {
					c.mend(Renamed, o, "the budget's reason %s became %s", reason.Value, now)
					reason.Value = string(now)
				}
			}
		}
	}
	expire := take(disruption, "expireAfter")
	if expire.key == nil {
		return
	}
	inner := below(below(spec, "template"), "spec")
	if now := field(inner, "expireAfter"); now != nil {
		c.mend(Lost, o, "spec.disruption.expireAfter %s: spec.template.spec.expireAfter says %s", scalar(expire.value), scalar(now))
		return
	}
	put(inner, "expireAfter", expire)
	c.mend(Renamed, o, "spec.disruption.expireAfter became spec.template.spec.expireAfter")
}

// mendClassRef writes the group and the kind, which older APIs implied or wrote as apiVersion.
func (c *conversion) mendClassRef(o *object, inner *yaml.Node) {
	ref := field(inner, "nodeClassRef")
	if ref == nil || field(ref, "apiVersion") == nil && field(ref, "group") != nil && field(ref, "kind") != nil {
		return
	}
	if group := groupOf(scalar(field(ref, "kind"))); field(ref, "group") == nil && field(ref, "apiVersion") == nil && group != "" {
		set(ref, "group", word(group))
	}
	ref = c.updateClassRef(o, inner)
	c.mend(Renamed, o, "nodeClassRef names group %s and kind %s", scalar(field(ref, "group")), scalar(field(ref, "kind")))
}

// groupOf returns the API group of a kind of node class. It returns "" for an unknown kind.
func groupOf(kind string) string {
	switch kind {
	case "NodeClass":
		return "eks.amazonaws.com"
	case "KWOKNodeClass":
		return "karpenter.kwok.sh"
	case "AKSNodeClass":
		return "karpenter.azure.com"
	}
	return ""
}

// claimOfToday mends a v1 NodeClaim.
func (c *conversion) claimOfToday(o *object) error {
	c.renameIn(o)
	spec := field(o.node, "spec")
	if take(spec, "kubelet").key != nil {
		c.mend(Lost, o, "spec.kubelet: the machine runs with it, and a new one takes it from the node class")
	}
	c.mendClassRef(o, spec)
	return nil
}

// classOfToday mends a v1 EC2NodeClass.
func (c *conversion) classOfToday(o *object) error {
	c.renameIn(o)
	spec := field(o.node, "spec")
	for _, selector := range []string{"amiSelector", "subnetSelector", "securityGroupSelector"} {
		old := take(spec, selector)
		if old.key == nil {
			continue
		}
		s := selectorTerms(old)
		c.noteNarrowed(o, selector, s)
		if field(spec, selector+"Terms") == nil {
			put(spec, selector+"Terms", pair{s.keyOrNew(), list(s.terms...)})
		}
		c.mend(Renamed, o, "spec.%s became spec.%sTerms", selector, selector)
	}
	if template := take(spec, "launchTemplate"); template.key != nil {
		c.mend(Lost, o, "spec.launchTemplate %s: launch templates of one's own are not taken; put what it says into the class", scalar(template.value))
	}
	family := field(spec, "amiFamily")
	images := len(items(field(spec, "amiSelectorTerms"))) > 0
	if spec != nil && (scalar(family) == "Ubuntu" || !images && scalar(family) != "Custom") {
		c.chooseImages(o, spec, "latest")
		c.mend(Renamed, o, "the images of amiFamily %s are named in spec.amiSelectorTerms", cmp.Or(scalar(family), "AL2"))
	}
	tags := field(spec, "tags")
	for _, p := range slices.Clone(pairs(tags)) {
		if isRestrictedTag(p.key.Value) {
			take(tags, p.key.Value)
			c.mend(Lost, o, "spec.tags %s: the controller sets that tag itself", p.key.Value)
		}
	}
	c.checkUserData(o, spec)
	return nil
}
