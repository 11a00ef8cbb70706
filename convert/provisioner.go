package convert

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	v1 "tenon.sh/api/v1"
)

// Groups and kinds of today's API.
const (
	apiVersion    = v1.Group + "/v1"
	awsGroup      = "karpenter.k8s.aws"
	awsAPIVersion = awsGroup + "/v1"
	awsKind       = "EC2NodeClass"
)

// provisioner converts a Provisioner to a NodePool.
func (c *conversion) provisioner(o *object) error {
	old := below(o.node, "spec")
	spec := mapping()
	inner, err := c.provisionerTemplate(o, old)
	if err != nil {
		return err
	}
	metadata := mapping()
	for _, name := range []string{"labels", "annotations"} {
		p := take(old, name)
		renameKeys(p.value)
		put(metadata, name, p)
	}
	template := mapping()
	if len(metadata.Content) > 0 {
		put(template, "metadata", is("", metadata))
	}
	put(template, "spec", is("", inner))
	put(spec, "template", is("", template))
	disruption, err := c.provisionerDisruption(o, old)
	if err != nil {
		return err
	}
	put(spec, "disruption", is("", disruption))
	limits := take(old, "limits")
	if resources := take(limits.value, "resources"); resources.key != nil {
		resources.key.HeadComment = strings.TrimSpace(limits.key.HeadComment + "\n" + resources.key.HeadComment)
		put(spec, "limits", resources)
	}
	put(spec, "weight", take(old, "weight"))
	c.lose(o, "spec.", old)
	c.finish(o, apiVersion, "NodePool", spec)
	c.note(Changed, o, "nodes that do not match their pool or class any more are replaced (drift), which Provisioners did only with featureGates.driftEnabled; to hold that back: spec.disruption.budgets [{nodes: 10%%}, {nodes: \"0\", reasons: [Drifted]}]")
	return nil
}

// finish sets the object's new kind and spec, and removes the fields that its controller wrote.
func (c *conversion) finish(o *object, apiVersion, kind string, spec *yaml.Node) {
	cleanMetadata(o.node)
	o.setKind(apiVersion, kind)
	set(o.node, "spec", spec)
	take(o.node, "status")
}

// lose notes the fields that are left in an old object after all known fields have been taken.
func (c *conversion) lose(o *object, path string, old *yaml.Node) {
	for _, p := range pairs(old) {
		c.note(Lost, o, "%s%s: there is no such field any more", path, p.key.Value)
	}
}

// provisionerTemplate returns the spec of the pool's template.
func (c *conversion) provisionerTemplate(o *object, old *yaml.Node) (*yaml.Node, error) {
	inner := mapping()
	ref, aws := c.providerRef(o, old)
	requirements := take(old, "requirements")
	if requirements.value == nil || len(items(requirements.value)) == 0 {
		requirements = is("", list())
	}
	if aws {
		addDefaults(requirements.value, field(old, "labels"))
	}
	c.checkRequirements(o, requirements.value)
	put(inner, "requirements", requirements)
	put(inner, "taints", take(old, "taints"))
	put(inner, "startupTaints", take(old, "startupTaints"))
	put(inner, "nodeClassRef", is("", ref))
	ttl := take(old, "ttlSecondsUntilExpired")
	switch seconds, err := wholeSeconds(ttl); {
	case err != nil:
		return nil, err
	case seconds == "":
		put(inner, "expireAfter", is("", word("Never")))
	default:
		put(inner, "expireAfter", ttl.with(seconds))
		c.noteExpiry(o)
	}
	kubelet := take(old, "kubeletConfiguration")
	if runtime := take(kubelet.value, "containerRuntime"); runtime.key != nil {
		c.note(Lost, o, "spec.kubeletConfiguration.containerRuntime %s: nodes run containerd", scalar(runtime.value))
	}
	c.pools = append(c.pools, pool{object: o, ref: ref, kubelet: kubelet.value})
	return inner, nil
}

func (c *conversion) noteExpiry(o *object) {
	c.note(Changed, o, "expireAfter is not held back by budgets any more: at that age a node is drained, whatever else goes on")
}

// wholeSeconds converts a field with a number of seconds to a duration; empty if there is no such field.
func wholeSeconds(p pair) (string, error) {
	if p.key == nil || scalar(p.value) == "" {
		return "", nil
	}
	if n, err := strconv.ParseInt(scalar(p.value), 10, 64); err != nil || n < 0 {
		return "", fmt.Errorf("spec.%s is %q: it must be a whole number of seconds", p.key.Value, scalar(p.value))
	}
	return scalar(p.value) + "s", nil
}

// providerRef returns the reference to the pool's node class, and reports whether the class belongs to AWS. It makes a class from an inline
// provider.
func (c *conversion) providerRef(o *object, old *yaml.Node) (*yaml.Node, bool) {
	inline := take(old, "provider")
	ref := take(old, "providerRef").value
	name, kind := scalar(field(ref, "name")), scalar(field(ref, "kind"))
	group, _, _ := strings.Cut(scalar(field(ref, "apiVersion")), "/")
	if inline.key != nil && ref == nil {
		name = o.name()
		c.addInline(o, inline.value)
	}
	if kind != "" && kind != "AWSNodeTemplate" {
		return classRef(group, kind, name), group == awsGroup
	}
	return classRef(awsGroup, awsKind, name), true
}

func classRef(group, kind, name string) *yaml.Node {
	return mapping(is("group", word(group)), is("kind", word(kind)), is("name", word(name)))
}

// addDefaults adds the requirements that all Provisioners had on AWS by default.
func addDefaults(requirements, labels *yaml.Node) {
	asks := func(keys ...string) bool {
		named := func(key string) bool { return slices.Contains(keys, v1.NormalizeLabel(key)) }
		return slices.ContainsFunc(items(requirements), func(r *yaml.Node) bool { return named(scalar(field(r, "key"))) }) ||
			slices.ContainsFunc(pairs(labels), func(p pair) bool { return named(p.key.Value) })
	}
	var added []*yaml.Node
	add := func(key, operator string, values ...string) {
		var list []*yaml.Node
		for _, value := range values {
			list = append(list, word(value))
		}
		added = append(added, mapping(is("key", word(key)), is("operator", word(operator)), is("values", flow(&yaml.Node{Kind: yaml.SequenceNode, Content: list}))))
	}
	if !asks("kubernetes.io/os") {
		add("kubernetes.io/os", "In", "linux")
	}
	if !asks("kubernetes.io/arch") {
		add("kubernetes.io/arch", "In", "amd64")
	}
	if !asks(v1.CapacityTypeLabelKey) {
		add(v1.CapacityTypeLabelKey, "In", "on-demand")
	}
	if !asks("node.kubernetes.io/instance-type", awsGroup+"/instance-family", awsGroup+"/instance-category", awsGroup+"/instance-generation") {
		add(awsGroup+"/instance-category", "In", "c", "m", "r")
		add(awsGroup+"/instance-generation", "Gt", "2")
	}
	if len(added) > 0 {
		added[0].HeadComment = "# What every Provisioner required on AWS without saying so:"
		requirements.Style &^= yaml.FlowStyle
		requirements.Content = append(requirements.Content, added...)
	}
}

// checkRequirements renames keys, and notes requirements that the API server will refuse.
func (c *conversion) checkRequirements(o *object, requirements *yaml.Node) {
	for _, r := range items(requirements) {
		key := field(r, "key")
		if key == nil {
			continue
		}
		if scalar(key) == oldPoolLabel {
			key.Value = v1.NodePoolLabelKey
		}
		if problem := v1.LabelRestriction(scalar(key)); problem != "" {
			c.note(ToDo, o, "requirement %s: %s; take it out or use another", scalar(key), problem)
		}
	}
}

// provisionerDisruption returns the disruption settings. It always writes them out, because today's defaults would remove more nodes.
func (c *conversion) provisionerDisruption(o *object, old *yaml.Node) (*yaml.Node, error) {
	consolidation := take(old, "consolidation")
	empty := take(old, "ttlSecondsAfterEmpty")
	seconds, err := wholeSeconds(empty)
	if err != nil {
		return nil, err
	}
	disruption := mapping()
	if scalar(field(consolidation.value, "enabled")) == "true" {
		enabled := pair{consolidation.key, field(consolidation.value, "enabled")}
		put(disruption, "consolidationPolicy", enabled.with("WhenEmptyOrUnderutilized"))
		put(disruption, "consolidateAfter", is("", word("0s")))
		if seconds != "" {
			c.note(Lost, o, "spec.ttlSecondsAfterEmpty: consolidation removes empty nodes as well, and the two could not be set together")
		}
		c.note(Changed, o, "consolidation disrupts 10 %% of the pool's nodes at a time unless spec.disruption.budgets says otherwise; it was one node, or all empty ones")
		return disruption, nil
	}
	put(disruption, "consolidationPolicy", is("", word("WhenEmpty")))
	if seconds == "" {
		put(disruption, "consolidateAfter", is("", word("Never")))
		return disruption, nil
	}
	put(disruption, "consolidateAfter", empty.with(seconds))
	c.note(Changed, o, "empty nodes are removed 10 %% of the pool's nodes at a time unless spec.disruption.budgets says otherwise; it was all of them")
	return disruption, nil
}
