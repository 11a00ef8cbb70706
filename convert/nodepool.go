package convert

import (
	"cmp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// nodePool converts a v1beta1 NodePool to v1.
func (c *conversion) nodePool(o *object) error {
	spec := below(o.node, "spec")
	inner := below(below(spec, "template"), "spec")
	renameKeys(field(field(field(spec, "template"), "metadata"), "annotations"))
	c.checkRequirements(o, field(inner, "requirements"))
	if field(inner, "requirements") == nil {
		put(inner, "requirements", is("", list()))
	}
	take(inner, "resources") // older APIs required it to be empty
	ref := c.updateClassRef(o, inner)
	kubelet := take(inner, "kubelet")
	if runtime := take(kubelet.value, "containerRuntime"); runtime.key != nil {
		c.note(Lost, o, "spec.template.spec.kubelet.containerRuntime %s: nodes run containerd", scalar(runtime.value))
	}
	c.pools = append(c.pools, pool{object: o, ref: ref, kubelet: kubelet.value})

	disruption := below(spec, "disruption")
	if expire := take(disruption, "expireAfter"); expire.key != nil {
		if scalar(expire.value) != "Never" {
			c.noteExpiry(o)
		}
		put(inner, "expireAfter", expire)
	} else {
		c.noteExpiry(o) // the default is 720h in both APIs
	}
	c.betaConsolidation(o, disruption)
	c.finish(o, apiVersion, "NodePool", spec)
	return nil
}

// betaConsolidation writes the defaults of v1beta1 into the spec.
func (c *conversion) betaConsolidation(o *object, disruption *yaml.Node) {
	switch policy := scalar(field(disruption, "consolidationPolicy")); policy {
	case "WhenEmpty":
		if field(disruption, "consolidateAfter") == nil {
			set(disruption, "consolidateAfter", word("0s"))
		}
	case "", "WhenUnderutilized":
		set(disruption, "consolidationPolicy", word("WhenEmptyOrUnderutilized"))
		if field(disruption, "consolidateAfter") == nil {
			set(disruption, "consolidateAfter", word("0s"))
			c.note(Changed, o, "consolidateAfter is 0s, the nearest to before; a few minutes keep nodes from going while pods still come and go")
		}
	}
}

// updateClassRef converts apiVersion to group, and sets kind and group to their old defaults if they are missing.
func (c *conversion) updateClassRef(o *object, inner *yaml.Node) *yaml.Node {
	old := below(inner, "nodeClassRef")
	version, kind, name := take(old, "apiVersion"), take(old, "kind"), take(old, "name")
	given := take(old, "group")
	ref := mapping()
	group, _, _ := strings.Cut(scalar(version.value), "/")
	put(ref, "group", version.with(cmp.Or(scalar(given.value), group, awsGroup)))
	put(ref, "kind", kind.with(cmp.Or(scalar(kind.value), awsKind)))
	put(ref, "name", name)
	c.lose(o, "nodeClassRef.", old)
	set(inner, "nodeClassRef", ref)
	return ref
}

// nodeClaim converts a v1beta1 NodeClaim to v1. It keeps the status, which names the machine.
func (c *conversion) nodeClaim(o *object) error {
	spec := below(o.node, "spec")
	if kubelet := take(spec, "kubelet"); kubelet.key != nil {
		c.note(Lost, o, "spec.kubelet: the machine runs with it, and a new one takes it from the node class")
	}
	c.checkRequirements(o, field(spec, "requirements"))
	if field(spec, "requirements") == nil {
		put(spec, "requirements", is("", list()))
	}
	c.updateClassRef(o, spec)
	if field(spec, "expireAfter") == nil {
		owner := scalar(field(field(field(o.node, "metadata"), "labels"), "karpenter.sh/nodepool"))
		set(spec, "expireAfter", word(c.expiryOf(owner)))
	}
	o.setKind(apiVersion, "NodeClaim")
	take(field(o.node, "metadata"), "managedFields")
	return nil
}

// expiryOf returns the age at which nodes of a pool expire; the default if the pool is not in the files.
func (c *conversion) expiryOf(poolName string) string {
	for _, o := range c.objects {
		if o.kind() != "NodePool" || o.name() != poolName {
			continue
		}
		spec := field(o.node, "spec")
		inner := field(field(spec, "template"), "spec")
		return cmp.Or(scalar(field(inner, "expireAfter")), scalar(field(field(spec, "disruption"), "expireAfter")), "720h")
	}
	return "720h"
}
