package convert

import (
	"slices"

	"go.yaml.in/yaml/v3"

	v1 "tenon.sh/api/v1"
)

const (
	oldPoolLabel       = "karpenter.sh/provisioner-name"
	oldDisruptionTaint = "karpenter.sh/disruption"
)

// newNames maps the old names of labels and annotations to their new names.
func newNames() map[string]string {
	return map[string]string{
		oldPoolLabel:                     v1.NodePoolLabelKey,
		v1.DoNotEvictAnnotationKey:       v1.DoNotDisruptAnnotationKey,
		v1.DoNotConsolidateAnnotationKey: v1.DoNotDisruptAnnotationKey,
	}
}

// renameIn changes names in an object of any kind: labels and annotations that are keys or values in a selector, and the taint in tolerations.
// The rest of the text stays as it is.
func (c *conversion) renameIn(o *object) {
	before := len(o.document.edits)
	c.renameBelow(o, o.node)
	c.nameMetrics(o, o.node)
	if len(o.document.edits) > before {
		c.touched++
	}
}

func (c *conversion) renameBelow(o *object, n *yaml.Node) {
	if n.Kind == yaml.AliasNode {
		return // its target is handled at the anchor
	}
	for _, p := range pairs(n) {
		switch name := newNames()[p.key.Value]; {
		case name != "" && field(n, name) == nil:
			c.rename(o, p.key, name)
		case p.value.Kind == yaml.ScalarNode && p.value.Value == oldPoolLabel:
			c.rename(o, p.value, v1.NodePoolLabelKey)
		case p.key.Value == "key" && scalar(p.value) == oldDisruptionTaint:
			c.rename(o, p.value, v1.DisruptedTaintKey)
			c.emptyValue(o, field(n, "value"))
		}
		c.renameBelow(o, p.value)
	}
	for _, item := range items(n) {
		if item.Kind == yaml.ScalarNode && item.Value == oldPoolLabel {
			c.rename(o, item, v1.NodePoolLabelKey)
		}
		c.renameBelow(o, item)
	}
}

func (c *conversion) rename(o *object, n *yaml.Node, to string) {
	c.note(Renamed, o, "%s became %s", n.Value, to)
	o.document.edits = append(o.document.edits, edit{line: n.Line, column: n.Column, from: n.Value, to: to})
	n.Value = to
}

// emptyValue removes the taint's old value from a toleration.
func (c *conversion) emptyValue(o *object, n *yaml.Node) {
	const old = "disrupting"
	if scalar(n) != old {
		return
	}
	to := `""`
	if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
		to = ""
	}
	o.document.edits = append(o.document.edits, edit{line: n.Line, column: n.Column, from: old, to: to})
	n.Value, n.Style = "", yaml.DoubleQuotedStyle
}

// renameKeys changes the names of labels or annotations in an object that is written anew.
func renameKeys(n *yaml.Node) {
	for _, p := range pairs(n) {
		if name := newNames()[p.key.Value]; name != "" {
			if field(n, name) != nil {
				take(n, p.key.Value)
				continue
			}
			p.key.Value = name
		}
	}
}

// cleanMetadata removes the annotations that an older controller or kubectl wrote about the old object.
func cleanMetadata(o *yaml.Node) {
	metadata := field(o, "metadata")
	take(metadata, "managedFields")
	annotations := field(metadata, "annotations")
	for _, p := range pairs(annotations) {
		if slices.Contains([]string{
			"kubectl.kubernetes.io/last-applied-configuration",
			"karpenter.sh/provisioner-hash", "karpenter.sh/nodepool-hash", "karpenter.sh/nodepool-hash-version",
			"karpenter.sh/stored-version-migrated",
			"compatibility.karpenter.sh/v1beta1-kubelet-conversion", "compatibility.karpenter.sh/v1beta1-nodeclass-reference",
			awsGroup + "/nodetemplate-hash", awsGroup + "/ec2nodeclass-hash", awsGroup + "/ec2nodeclass-hash-version",
			aliasVersionAnnotation,
		}, p.key.Value) {
			take(annotations, p.key.Value)
		}
	}
	if annotations != nil && len(annotations.Content) == 0 {
		take(metadata, "annotations")
	}
}
