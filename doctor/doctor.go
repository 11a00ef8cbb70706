// Package doctor checks whether the autoscaler can work in a cluster. It finds faults in a picture of all relevant objects and settings, and
// tells how to repair each fault. It reads only the picture: its callers take the picture and print the findings. A cloud's provider finds
// the faults in the cloud.
package doctor

import (
	"cmp"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/provisioning"
	"tenon.sh/provider"
)

// Picture is the visible state of a cluster at one instant.
type Picture struct {
	Now time.Time
	// Snapshot is the engine's input, Options are the controller's options. Classes are the node class objects.
	Snapshot *engine.Snapshot
	Options  engine.Options
	Classes  []provider.Class
	// Notes lists, by name of the pool, settings that are accepted without effect.
	Notes map[string][]string
	// Wanted are Tenon's definitions, Installed are the cluster's definitions. Class names the definition of the cloud's node class.
	Wanted, Installed []*apiextensionsv1.CustomResourceDefinition
	Class             string
	Deployments       []*appsv1.Deployment
	Leases            []*coordinationv1.Lease // for leader election
	// AutoscalerStatus is the ConfigMap of Cluster Autoscaler, nil if there is none or the account may not read it.
	AutoscalerStatus *corev1.ConfigMap
	Answers          bool // a controller has served its catalog; it may lead without election
	// Account is the controller's service account. Denied are the necessary rights that it lacks.
	Account string
	Denied  []string
	Hooks   []Hook
	// plan is the engine's plan for the waiting pods. Examine computes it once.
	plan *engine.Plan
	// Gaps are the parts of the cluster that could not be read.
	Gaps []Gap
}

// Hook is a webhook that the API server calls when objects are written.
type Hook struct {
	// Kind and Configuration name the object that contains the webhook.
	Kind, Configuration, Name string
	Refuses                   bool // writes are refused if the webhook does not answer
	Rules                     []admissionv1.RuleWithOperations
	// Service is the webhook's Service, "" if it is outside the cluster. Endpoints counts the Service's ready endpoints; it is -1 if their number
	// is unknown. ExternalName is the host of a Service of this type: it has no endpoints, and perhaps only the API server can reach it.
	Service      string
	Endpoints    int
	ExternalName string
}

// Gap is a part of the cluster that could not be read, with the reason.
type Gap struct{ What, Why string }

// Examine makes all checks. Findings are in the order of checks, then by level from problem to OK, then by object.
func Examine(p *Picture) []provider.Finding {
	var out []provider.Finding
	if p.Snapshot != nil {
		p.plan = provisioning.Plan(p.Snapshot, p.Options, nil)
	}
	for _, check := range []func(*Picture) []provider.Finding{
		definitions, controllers, clusterAutoscaler, scheduler, rights, hooks, classes, pools, pods, claims, nodes, daemonSets, budgets, oldNames, gaps,
	} {
		found := check(p)
		slices.SortStableFunc(found, func(a, b provider.Finding) int {
			return cmp.Or(cmp.Compare(rank(a.Level), rank(b.Level)), cmp.Compare(a.Object, b.Object))
		})
		out = append(out, found...)
	}
	return out
}

func rank(l provider.Level) int {
	return slices.Index([]provider.Level{provider.Problem, provider.Warning, provider.OK}, l)
}

// Worst returns the worst level of all findings.
func Worst(findings []provider.Finding) provider.Level {
	worst := provider.OK
	for _, f := range findings {
		if rank(f.Level) < rank(worst) {
			worst = f.Level
		}
	}
	return worst
}

// list collects the findings of one check.
type list struct {
	check    string
	findings []provider.Finding
}

func (l *list) problem(object, says, do string) { l.add(provider.Problem, object, says, do) }
func (l *list) warning(object, says, do string) { l.add(provider.Warning, object, says, do) }

func (l *list) add(level provider.Level, object, says, do string) {
	l.findings = append(l.findings, provider.Finding{Level: level, Check: l.check, Object: object, Says: says, Do: do})
}

// or returns the findings. If there are none, it returns an OK finding with the given text.
func (l *list) or(says string) []provider.Finding {
	if len(l.findings) == 0 {
		l.add(provider.OK, "", says, "")
	}
	return l.findings
}

func gaps(p *Picture) []provider.Finding {
	l := list{check: "not checked"}
	for _, g := range p.Gaps {
		l.warning("", g.What+" could not be looked at: "+g.Why, "run this as somebody who may read it")
	}
	return l.findings
}
