package convert

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// globalSettings is the ConfigMap with the settings that flags and the Helm chart hold now.
const globalSettings = "karpenter-global-settings"

// settings holds the settings of the ConfigMap that node classes need.
type settings struct {
	instanceProfile string
	tags            *yaml.Node
}

// chartValues maps settings to their names in the Helm chart.
func chartValues() map[string]string {
	return map[string]string{
		"batchMaxDuration":            "batchMaxDuration",
		"batchIdleDuration":           "batchIdleDuration",
		"aws.clusterName":             "clusterName",
		"aws.clusterEndpoint":         "clusterEndpoint",
		"aws.clusterCABundle":         "clusterCABundle",
		"aws.isolatedVPC":             "isolatedVPC",
		"aws.vmMemoryOverheadPercent": "vmMemoryOverheadPercent",
		"aws.interruptionQueueName":   "interruptionQueue",
		"aws.reservedENIs":            "reservedENIs",
	}
}

// readSettings reads the ConfigMap and drops it, because no program reads it any more.
func (c *conversion) readSettings(o *object) {
	o.dropped, o.document.changed = true, true
	c.converted++
	var values []string
	for _, p := range pairs(field(o.node, "data")) {
		value := scalar(p.value)
		switch name := p.key.Value; {
		case value == "":
		case chartValues()[name] != "":
			values = append(values, fmt.Sprintf("--set settings.%s=%s", chartValues()[name], value))
		case name == "aws.defaultInstanceProfile":
			c.settings.instanceProfile = value
		case name == "aws.tags":
			var tags yaml.Node
			if err := yaml.Unmarshal([]byte(value), &tags); err != nil || len(tags.Content) == 0 {
				c.note(Lost, o, "aws.tags is no JSON object: %s", value)
				continue
			}
			c.settings.tags = tags.Content[0]
			c.note(Changed, o, "aws.tags are written into every EC2NodeClass of the files")
		case name == "featureGates.driftEnabled":
			if value == "false" {
				c.note(Lost, o, "featureGates.driftEnabled: false: nodes that have drifted are always replaced; hold it back with spec.disruption.budgets of pools")
			}
		case name == "aws.enableENILimitedPodDensity" && value == "false":
			c.note(ToDo, o, "aws.enableENILimitedPodDensity: false: set spec.kubelet.maxPods: 110 in every EC2NodeClass")
		case name == "aws.enablePodENI" || name == "aws.enableENILimitedPodDensity":
		default:
			c.note(Lost, o, "%s: there is no such setting any more", name)
		}
	}
	text := "left out: nothing reads it any more"
	if len(values) > 0 {
		text += "; install with " + strings.Join(values, " ")
	}
	c.note(Changed, o, "%s", text)
}
