package convert

import (
	"cmp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const aliasVersionAnnotation = "compatibility.karpenter.k8s.aws/v1-alias-version"

// nodeTemplate converts an AWSNodeTemplate to an EC2NodeClass.
func (c *conversion) nodeTemplate(o *object) error {
	spec := c.templateSpec(o, below(o.node, "spec"))
	c.finish(o, awsAPIVersion, awsKind, spec)
	return nil
}

// addInline makes an EC2NodeClass from a Provisioner's inline provider.
func (c *conversion) addInline(o *object, provider *yaml.Node) {
	take(provider, "apiVersion")
	take(provider, "kind")
	class := mapping(
		is("apiVersion", word(awsAPIVersion)),
		is("kind", word(awsKind)),
		is("metadata", mapping(is("name", word(o.name())))),
		is("spec", c.templateSpec(o, provider)))
	o.added = append(o.added, class)
	c.note(Changed, o, "spec.provider became EC2NodeClass %s", o.name())
}

// templateSpec returns the spec of an EC2NodeClass, made from the spec of an AWSNodeTemplate.
func (c *conversion) templateSpec(o *object, old *yaml.Node) *yaml.Node {
	spec := mapping()
	family := take(old, "amiFamily")
	images := selectorTerms(take(old, "amiSelector"))
	if template := take(old, "launchTemplate"); template.key != nil {
		c.note(Lost, o, "spec.launchTemplate %s: launch templates of one's own are not taken; put what it says into the class", scalar(template.value))
	}
	name := family.with(cmp.Or(scalar(family.value), "AL2"))
	put(spec, "amiFamily", name)
	if len(images.terms) > 0 {
		put(spec, "amiSelectorTerms", pair{images.key, list(images.terms...)})
	}
	for _, selector := range []string{"subnet", "securityGroup"} {
		s := selectorTerms(take(old, selector+"Selector"))
		if len(s.terms) == 0 {
			c.note(ToDo, o, "spec.%sSelectorTerms: none are given, and a class needs at least one", selector)
			s.terms = []*yaml.Node{mapping(is("tags", mapping(is("karpenter.sh/discovery", word("$CLUSTER_NAME")))))}
		}
		c.noteNarrowed(o, selector+"Selector", s)
		put(spec, selector+"SelectorTerms", pair{s.keyOrNew(), list(s.terms...)})
	}
	c.noteNarrowed(o, "amiSelector", images)
	for _, same := range []string{"instanceProfile", "associatePublicIPAddress", "tags", "userData", "blockDeviceMappings", "detailedMonitoring", "metadataOptions", "context"} {
		put(spec, same, take(old, same))
	}
	c.lose(o, "spec.", old)
	c.completeClass(o, spec, "latest")
	return spec
}

// nodeClass converts a v1beta1 EC2NodeClass to v1.
func (c *conversion) nodeClass(o *object) error {
	spec := below(o.node, "spec")
	annotations := field(field(o.node, "metadata"), "annotations")
	c.completeClass(o, spec, cmp.Or(scalar(field(annotations, aliasVersionAnnotation)), "latest"))
	c.finish(o, awsAPIVersion, awsKind, spec)
	return nil
}

// completeClass converts images, identity, metadata options and tags, which both older kinds of class need.
func (c *conversion) completeClass(o *object, spec *yaml.Node, version string) {
	c.chooseImages(o, spec, version)
	if field(spec, "role") == nil && field(spec, "instanceProfile") == nil {
		c.giveIdentity(o, spec)
	}
	c.checkUserData(o, spec)
	options := below(spec, "metadataOptions")
	if field(options, "httpPutResponseHopLimit") == nil {
		set(options, "httpPutResponseHopLimit", number("2"))
		c.note(Changed, o, "metadataOptions.httpPutResponseHopLimit: 2 is written down, which was the default; it is 1 now, and without the line pods lose EC2's metadata")
	}
	tags := field(spec, "tags")
	for _, p := range pairs(tags) {
		if isRestrictedTag(p.key.Value) {
			take(tags, p.key.Value)
			c.note(Lost, o, "spec.tags %s: the controller sets that tag itself", p.key.Value)
		}
	}
	for _, p := range pairs(c.settings.tags) {
		if isRestrictedTag(p.key.Value) || field(tags, p.key.Value) != nil {
			continue
		}
		set(below(spec, "tags"), p.key.Value, copied(p.value))
	}
	if tags := field(spec, "tags"); tags != nil && len(tags.Content) == 0 {
		take(spec, "tags")
	}
}

func isRestrictedTag(key string) bool {
	return strings.HasPrefix(key, "kubernetes.io/cluster") ||
		slices.Contains([]string{"eks:eks-cluster-name", "karpenter.sh/nodepool", "karpenter.sh/nodeclaim", awsGroup + "/ec2nodeclass"}, key)
}

// giveIdentity sets the role of nodes, or their instance profile, if one of them is known.
func (c *conversion) giveIdentity(o *object, spec *yaml.Node) {
	switch {
	case c.options.Role != "":
		set(spec, "role", word(c.options.Role))
	case c.settings.instanceProfile != "":
		set(spec, "instanceProfile", word(c.settings.instanceProfile))
	default:
		set(spec, "role", word("$KARPENTER_NODE_ROLE"))
		c.note(ToDo, o, "spec.role: name the IAM role of nodes, or name it once with --role")
	}
}

// chooseImages writes the default images of older APIs into the spec, if the spec names none.
func (c *conversion) chooseImages(o *object, spec *yaml.Node, version string) {
	family := scalar(field(spec, "amiFamily"))
	given := len(items(field(spec, "amiSelectorTerms"))) > 0
	switch {
	case family == "Ubuntu":
		c.ubuntu(o, spec, given)
	case given:
	case family == "Custom":
		c.note(ToDo, o, "spec.amiSelectorTerms: AMI family Custom needs at least one")
	default:
		alias := strings.ToLower(cmp.Or(family, "AL2")) + "@" + version
		at := take(spec, "amiFamily")
		take(spec, "amiSelectorTerms")
		terms := pair{at.key, list(mapping(is("alias", word(alias))))}
		if at.key == nil {
			terms.key = word("")
		}
		terms.key.Value = "amiSelectorTerms"
		if at.value != nil {
			terms.key.LineComment = cmp.Or(terms.key.LineComment, at.value.LineComment)
		}
		resolved(spec).Content = append([]*yaml.Node{terms.key, terms.value}, resolved(spec).Content...)
		if version == "latest" {
			c.note(Changed, o, "alias %s: a new image replaces nodes when AWS publishes it; to choose the day, name a version in place of latest", alias)
		}
		if strings.HasPrefix(alias, "al2@") {
			c.note(Changed, o, "alias %s: there are no such images for Kubernetes 1.33 and later; al2023@latest is the next", alias)
		}
	}
}

// ubuntu replaces the family Ubuntu, which no longer exists, by AL2, because images of both families boot in the same way.
func (c *conversion) ubuntu(o *object, spec *yaml.Node, given bool) {
	set(spec, "amiFamily", word("AL2"))
	if !given {
		set(spec, "amiSelectorTerms", list(mapping(is("id", word("ami-placeholder")))))
		c.note(ToDo, o, "spec.amiSelectorTerms: AMI family Ubuntu is no more; name Canonical's image for your version of Kubernetes by id, or the SSM parameter that holds it as ssmParameter")
	}
	c.note(Changed, o, "AMI family Ubuntu became AL2 with Canonical's image: both read the same user data")
	if field(spec, "blockDeviceMappings") == nil {
		disk := mapping(is("encrypted", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"}), is("volumeSize", word("20Gi")), is("volumeType", word("gp3")))
		set(spec, "blockDeviceMappings", list(mapping(
			is("deviceName", word("/dev/sda1")),
			is("rootVolume", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"}),
			is("ebs", disk))))
	}
}

// checkUserData notes scripts that configure the node themselves, as images before nodeadm required.
func (c *conversion) checkUserData(o *object, spec *yaml.Node) {
	const script = "/etc/eks/bootstrap.sh"
	if !strings.Contains(scalar(field(spec, "userData")), script) {
		return
	}
	family := scalar(field(spec, "amiFamily"))
	for _, term := range items(field(spec, "amiSelectorTerms")) {
		if alias, _, aliased := strings.Cut(scalar(field(term, "alias")), "@"); aliased {
			family = alias
		}
	}
	switch strings.ToLower(family) {
	case "al2023":
		c.note(ToDo, o, "spec.userData: it calls %s, which images of AL2023 do not have: put what it says of the kubelet into spec.kubelet, the rest into a NodeConfig of node.eks.aws/v1alpha1, and leave the call out", script)
	case "al2":
		c.note(Changed, o, "spec.userData calls %s, which the controller does as well, behind it: leave the call out, and put what it says of the kubelet into spec.kubelet. Images of AL2023 do not have the script", script)
	}
}
