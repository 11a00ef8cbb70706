package convert

import (
	"encoding/json"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// A pool is a NodePool whose node class has to get its kubelet settings.
type pool struct {
	object  *object
	ref     *yaml.Node // its nodeClassRef
	kubelet *yaml.Node // nil if the pool has no kubelet settings
}

// moveKubelets writes the kubelet settings of pools into their classes. If pools of one class have different settings, copies of the class are
// made.
func (c *conversion) moveKubelets() error {
	var names []string
	byClass := map[string][]pool{}
	for _, p := range c.pools {
		name := scalar(field(p.ref, "name"))
		if scalar(field(p.ref, "kind")) != awsKind {
			if p.kubelet != nil {
				c.note(ToDo, p.object, "its kubelet settings belong into %s %s", scalar(field(p.ref, "kind")), name)
			}
			continue
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		byClass[name] = append(byClass[name], p)
	}
	for _, name := range names {
		if err := c.moveInto(name, byClass[name]); err != nil {
			return err
		}
	}
	return nil
}

func (c *conversion) moveInto(name string, pools []pool) error {
	owner, class := c.class(name)
	if class == nil {
		for _, p := range pools {
			if p.kubelet == nil {
				continue
			}
			text, err := canonical(p.kubelet)
			if err != nil {
				return err
			}
			c.note(ToDo, p.object, "EC2NodeClass %s is not in the files: its spec.kubelet must become %s", name, text)
		}
		return nil
	}
	// If the class has settings of its own, or a pool has none, the class stays as it is.
	first := field(field(class, "spec"), "kubelet")
	settled := first != nil || slices.ContainsFunc(pools, func(p pool) bool { return p.kubelet == nil })
	kept, err := canonical(first)
	if err != nil {
		return err
	}
	copies := map[string]string{} // names of copies of the class, by kubelet settings
	for _, p := range pools {
		said, err := canonical(p.kubelet)
		switch {
		case err != nil:
			return err
		case said == kept || p.kubelet == nil:
			continue
		case !settled:
			set(below(class, "spec"), "kubelet", p.kubelet)
			owner.document.changed = true
			settled, kept = true, said
			continue
		}
		if copies[said] == "" {
			copies[said] = name + "-" + p.object.name()
			c.addCopy(owner, class, copies[said], p.kubelet)
			c.note(Changed, p.object, "pools of EC2NodeClass %s told their kubelets different things: it has a class of its own, %s", name, copies[said])
		}
		set(p.ref, "name", word(copies[said]))
	}
	return nil
}

// class returns the class of that name, and the object from which it comes.
func (c *conversion) class(name string) (*object, *yaml.Node) {
	for _, o := range c.objects {
		if o.kind() == awsKind && o.name() == name {
			return o, o.node
		}
		for _, added := range o.added {
			if scalar(field(field(added, "metadata"), "name")) == name {
				return o, added
			}
		}
	}
	return nil, nil
}

func (c *conversion) addCopy(owner *object, class *yaml.Node, name string, kubelet *yaml.Node) {
	twin := copied(class)
	set(below(twin, "metadata"), "name", word(name))
	take(field(twin, "metadata"), "uid")
	take(field(twin, "metadata"), "resourceVersion")
	set(below(twin, "spec"), "kubelet", copied(kubelet))
	owner.added = append(owner.added, twin)
	owner.document.changed = true
}

// canonical returns the same text for equal settings.
func canonical(n *yaml.Node) (string, error) {
	if n == nil {
		return "", nil
	}
	var value any
	if err := n.Decode(&value); err != nil {
		return "", fmt.Errorf("line %d: read kubelet settings: %w", n.Line, err)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("line %d: read kubelet settings: %w", n.Line, err)
	}
	return string(text), nil
}
