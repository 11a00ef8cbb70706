package scenario_test

import (
	"slices"
	"strings"
	"testing"
)

func TestAnUnknownFieldIsNotedOnceWithWhatWasMeant(t *testing.T) {
	t.Parallel()
	pool := func(template, spec string) string {
		return "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\nspec:\n  template:\n    spec:\n" +
			"      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}\n      requirements: []\n" + template + spec
	}
	const deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec:\n  selector: {matchLabels: {app: web}}\n"
	const template = "  template:\n    metadata: {labels: {app: web}}\n    spec:\n      containers: [{name: c}]\n"
	for _, test := range []struct{ name, text, want string }{
		{"labels of nodes", pool("      labels: {a: b}\n", ""), `NodePool p: unknown field "spec.template.spec.labels": did you mean spec.template.metadata.labels?`},
		{"an older place", pool("", "  disruption: {consolidateAfter: 1m, expireAfter: 720h}\n"), `NodePool p: unknown field "spec.disruption.expireAfter": did you mean spec.template.spec.expireAfter?`},
		{"a taint of the pool", pool("", "  taints: []\n"), `NodePool p: unknown field "spec.taints": did you mean spec.template.spec.taints?`},
		{"misspelt", pool("", "  wieght: 3\n"), `NodePool p: unknown field "spec.wieght": did you mean spec.weight?`},
		{"another kind's", pool("      blockDeviceMappings: []\n", ""), `NodePool p: unknown field "spec.template.spec.blockDeviceMappings": kind EC2NodeClass has spec.blockDeviceMappings`},
		{"in a list", pool("      startupTaints: [{key: a, efect: NoSchedule, effect: NoSchedule}]\n", ""), `NodePool p: unknown field "spec.template.spec.startupTaints[0].efect": did you mean spec.template.spec.startupTaints.effect?`},
		{"nothing like it", pool("", "  zebra: 1\n"), `NodePool p: unknown field "spec.zebra"`},
		{"a class's", ec2ClassOf("al2023@latest", "  instanceStoragePolicy: RAID0\n"), `EC2NodeClass default: unknown field "spec.instanceStoragePolicy": did you mean spec.instanceStorePolicy?`},
		{"a class's of Azure", "apiVersion: karpenter.azure.com/v1beta1\nkind: AKSNodeClass\nmetadata: {name: default}\nspec: {osDiskSize: 100}\n", `AKSNodeClass default: unknown field "spec.osDiskSize": did you mean spec.osDiskSizeGB?`},
		{"its older version", "apiVersion: karpenter.azure.com/v1alpha2\nkind: AKSNodeClass\nmetadata: {name: default}\nspec: {imageFamly: Ubuntu}\n", `AKSNodeClass default: unknown field "spec.imageFamly": did you mean spec.imageFamily?`},
		{"of a Deployment", deployment + "  replica: 3\n" + template, `Deployment shop/web: unknown field "spec.replica": did you mean spec.replicas?`},
		{"of a pod's spec", deployment + template + "      nodeselector: {a: b}\n", `Deployment shop/web: unknown field "spec.template.spec.nodeselector": did you mean spec.template.spec.nodeSelector?`},
		{"of a pod, above it", deployment + "  tolerations: []\n" + template, `Deployment shop/web: unknown field "spec.tolerations": did you mean spec.template.spec.tolerations?`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			notes := readBack(t, []byte(test.text)).Notes
			if !slices.Contains(notes, test.want) || strings.Count(strings.Join(notes, "\n"), "unknown field") != 1 {
				t.Errorf("noted %q, want once\n%s", notes, test.want)
			}
		})
	}
}
