// Package doctor checks whether the autoscaler can work in a cluster. It finds faults in a picture of all objects and settings that matter, and says
// how to mend each. It reads nothing but the picture: its callers take the picture and print the findings. A cloud's provider finds the faults in
// the cloud.
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

// Picture is a cluster at one instant, as far as it could be seen.
type Picture struct {
	Now time.Time
	// Snapshot is what the engine decides by, Options what the controller was told. Classes are the node class objects.
	Snapshot *engine.Snapshot
	Options  engine.Options
	Classes  []provider.Class
	// Notes say of pools, by name, what is accepted without being acted on.
	Notes map[string][]string
	// Wanted are our own definitions, Installed all that the cluster has. Class names the definition of the cloud's node class.
	Wanted, Installed []*apiextensionsv1.CustomResourceDefinition
	Class             string
	Deployments       []*appsv1.Deployment
	Leases            []*coordinationv1.Lease // by which leaders are elected
	// AutoscalerStatus is the ConfigMap of Cluster Autoscaler, nil if there is none or it may not be seen.
	AutoscalerStatus *corev1.ConfigMap
	Answers          bool // a controller has served its catalog, elected or not
	// Account is the service account that was asked about, Denied what it lacks of the rights that it needs.
	Account string
	Denied  []string
	Hooks   []Hook
	// plan is what the engine decides for the pods that wait, made once.
	plan *engine.Plan
	// Gaps are what could not be seen, and why.
	Gaps []Gap
}

// Hook is a webhook that the API server asks when objects are written.
type Hook struct {
	// Kind and Configuration name the object that it is part of.
	Kind, Configuration, Name string
	Refuses                   bool // what it cannot be asked about is refused
	Rules                     []admissionv1.RuleWithOperations
	// Service is where it is, "" if it is outside; Endpoints counts those that are ready, -1 if that is not known. ExternalName is what a
	// service of that type stands for: it has no endpoints, and may be reached by the API server alone.
	Service      string
	Endpoints    int
	ExternalName string
}

// Gap is something that could not be looked at.
type Gap struct{ What, Why string }

// Examine makes every check. Findings are in the order of checks, then worst first, then by object.
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

// Worst is the worst level of all findings.
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

// or says that all is well if nothing was found.
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
