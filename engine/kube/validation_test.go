package kube

import (
	"strings"
	"testing"

	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
)

func TestPodsThatNoNodeCouldTake(t *testing.T) {
	t.Parallel()
	const (
		node    = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
		with    = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
		without = "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm"
		spread  = "spec.topologySpreadConstraints[0]"
	)
	nodeTerms := func(terms string) string {
		return `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [` + terms + `]}}}`
	}
	expressions := func(all string) string { return nodeTerms(`{matchExpressions: [` + all + `]}`) }
	for _, c := range []struct{ name, spec, key, have string }{
		{"nothing odd", `containers: [{resources: {requests: {cpu: 1}}}]`, "", ""},
		{"a request of zero", `containers: [{resources: {requests: {cpu: 0}}}]`, "", ""},
		{"a request below zero", `containers: [{}, {resources: {requests: {cpu: -1, memory: -1}}}]`, "spec.containers[1].resources.requests.cpu", "-1 is below zero"},
		{"an init container below zero", `initContainers: [{resources: {requests: {memory: -1Gi}}}]`, "spec.initContainers[0].resources.requests.memory", "-1Gi is below zero"},
		{"the pod as a whole below zero", `resources: {requests: {cpu: -1}}`, "spec.resources.requests.cpu", "below zero"},
		{"overhead below zero", `overhead: {cpu: -1m}`, "spec.overhead.cpu", "below zero"},
		{"more than can be counted is only more than any machine has", `containers: [{resources: {requests: {cpu: "99999999999999999999", memory: 9999999999Ei}}}]`, "", ""},
		{"a port that does not exist", `containers: [{ports: [{hostPort: 70000}]}]`, "spec.containers[0].ports[0].hostPort", "70000 is not a port"},

		{"a selector that looks like numbers", `nodeSelector: {a: "1", b: "01", c: "1e3", d: "true"}`, "", ""},
		{"a selector that no label can meet", `nodeSelector: {b: "x y", a: z}`, "spec.nodeSelector[b]", `"x y" is not a label value`},
		{"a selector of no key", `nodeSelector: {"": z}`, "spec.nodeSelector[]", `"" is not a label key`},

		{"no node term", nodeTerms(``), node, "no node matches"},
		{"an empty node term", nodeTerms(`{}`), node, "no node matches"},
		{"a readable term beside others is enough", nodeTerms(`{}, {matchExpressions: [{key: a, operator: Near}]}, {matchExpressions: [{key: a, operator: Exists}]}`), "", ""},
		{"an operator that does not exist", expressions(`{key: a, operator: Near, values: [x]}`), node + "[0].matchExpressions[0]", `the operator "Near" does not exist`},
		{"In without values", expressions(`{key: b, operator: Exists}, {key: a, operator: In}`), node + "[0].matchExpressions[1]", "In needs values"},
		{"NotIn without values", expressions(`{key: a, operator: NotIn}`), node + "[0].matchExpressions[0]", "NotIn needs values"},
		{"Exists with values", expressions(`{key: a, operator: Exists, values: [x]}`), node + "[0].matchExpressions[0]", "Exists takes no values"},
		{"Gt of a word", expressions(`{key: a, operator: Gt, values: [many]}`), node + "[0].matchExpressions[0]", `Gt needs an integer, not "many"`},
		{"Lt of a fraction", expressions(`{key: a, operator: Lt, values: ["1.5"]}`), node + "[0].matchExpressions[0]", `Lt needs an integer, not "1.5"`},
		{"Gt of two numbers", expressions(`{key: a, operator: Gt, values: ["1", "2"]}`), node + "[0].matchExpressions[0]", "Gt needs one value, has 2"},
		{"Gt of what no label can be", expressions(`{key: a, operator: Gt, values: ["-1"]}`), node + "[0].matchExpressions[0]", `"-1" is not a label value`},
		{"Gt of a number", expressions(`{key: a, operator: Gt, values: ["4"]}`), "", ""},
		{"the first unreadable term is named", nodeTerms(`{}, {matchExpressions: [{key: a, operator: In}]}, {matchExpressions: [{key: b, operator: In}]}`), node + "[1].matchExpressions[0]", "In needs values"},
		{"contradictions are no fault of form", expressions(`{key: a, operator: Exists}, {key: a, operator: DoesNotExist}`), "", ""},
		{"a field of a node", nodeTerms(`{matchFields: [{key: metadata.name, operator: In, values: [n]}]}`), "", ""},
		{"a field with several values", nodeTerms(`{matchFields: [{key: metadata.name, operator: In, values: [n, m]}]}`), node + "[0].matchFields[0]", "needs one value, has 2"},
		{"a field with another operator", nodeTerms(`{matchFields: [{key: metadata.name, operator: Exists}]}`), node + "[0].matchFields[0]", `the operator "Exists"`},
		{"another field", nodeTerms(`{matchFields: [{key: spec.x, operator: In, values: [n]}]}`), node + "[0].matchFields[0]", `"spec.x" is not a field`},
		{"a preferred term that cannot be read", `affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: a, operator: In}]}}]}}`, "", ""},

		{"a spread", `topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, minDomains: 3}]`, "", ""},
		{"a spread that may fail in another way", `topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: Perhaps}]`, spread + ".whenUnsatisfiable", `"Perhaps" is neither`},
		{"two spreads over one key", `topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}, {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]`, "", ""},
		{"the same spread twice", `topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]`, "spec.topologySpreadConstraints[1]", "spec.topologySpreadConstraints[0]"},
		{"a spread without skew", `topologySpreadConstraints: [{maxSkew: 0, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]`, spread + ".maxSkew", "0 is not above zero"},
		{"a spread over nothing", `topologySpreadConstraints: [{maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]`, spread + ".topologyKey", "is empty"},
		{"a spread over no domain", `topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, minDomains: 0}]`, spread + ".minDomains", "0 is not above zero"},
		{"a spread with another policy", `topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: Maybe}]`, spread + ".nodeTaintsPolicy", `"Maybe" is neither Honor nor Ignore`},
		{"a spread of unreadable pods", `topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchExpressions: [{key: a, operator: In}]}}]`, spread + ".labelSelector", "matchExpressions[0]: In needs values"},
		{"a soft spread of unreadable pods", `topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchExpressions: [{key: a, operator: In}]}}]`, "", ""},

		{"affinity over nothing", `affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {}}]}}`, with + ".topologyKey", "is empty"},
		{"affinity to unreadable pods", `affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {matchLabels: {a: "x y"}}}]}}`, with + ".labelSelector", `matchLabels: "x y" is not a label value`},
		{"affinity in unreadable namespaces", `affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, namespaceSelector: {matchExpressions: [{key: a, operator: Near}]}}]}}`, with + ".namespaceSelector", `the operator "Near"`},
		{"preferred anti-affinity to unreadable pods", `affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: zone, labelSelector: {matchExpressions: [{key: a, operator: In}]}}}]}}`, without + ".labelSelector", "In needs values"},
		{"affinity to pods of no selector", `affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone}]}}`, "", ""},
		{"empty affinities", `affinity: {nodeAffinity: {}, podAffinity: {}, podAntiAffinity: {}}`, "", ""},
	} {
		r := ProblemOf(enginetest.PodWith(t, c.spec))
		if c.key == "" && !r.OK() || c.key != "" && r.Code != engine.InvalidPod || r.Key != c.key || !strings.Contains(r.Have, c.have) {
			t.Errorf("%s: %v (key %q)", c.name, r, r.Key)
		}
	}
}
