package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/provider"
)

// controllers checks that one controller runs, and finds EKS Auto Mode, which starts machines for the same pods.
func controllers(p *Picture) []provider.Finding {
	l := list{check: "controller"}
	var ours []*appsv1.Deployment
	for _, d := range p.Deployments {
		switch {
		case replicas(d) == 0:
		case isKarpenter(d):
			ours = append(ours, d)
		}
	}
	var held []*coordinationv1.Lease
	for _, lease := range p.Leases {
		if holder(lease, p.Now) != "" {
			held = append(held, lease)
		}
	}
	if len(held) > 1 {
		l.problem("Lease "+held[0].Namespace+"/"+held[0].Name, fmt.Sprintf("%d controllers lead at the same time, under Leases in %s: each starts and removes machines",
			len(held), strings.Join(namespaces(held), ", ")), "keep one of them: helm list -A, and helm uninstall in the other namespace")
	} else if len(ours) > 1 {
		l.warning(named(ours[1]), "there are "+fmt.Sprint(len(ours))+" Deployments of the autoscaler; the other is "+named(ours[0])+", and only their Lease keeps them apart", "keep one of them")
	}
	for _, d := range ours {
		if d.Status.ReadyReplicas == 0 {
			l.problem(named(d), "none of its pods is ready", "kubectl -n "+d.Namespace+" logs deployment/"+d.Name)
		}
	}
	unseen := slices.ContainsFunc(p.Gaps, func(g Gap) bool { return g.What == "Deployments" || g.What == "Leases" })
	if len(ours) == 0 && len(held) == 0 && !p.Answers && !unseen {
		l.warning("", "no controller runs: pods wait for machines, and machines that are being deleted stay", "install it: helm upgrade --install karpenter")
	}
	l.autoMode(p)
	if unseen && len(held) == 0 {
		return l.findings // the check gaps reports this
	}
	if len(ours) == 0 && len(held) == 0 {
		return l.or("a controller answers that is not elected, and belongs to no Deployment")
	}
	return l.or(leader(held))
}

// autoMode reports pools of EKS Auto Mode, which has a Karpenter of its own for the same kinds.
func (l *list) autoMode(p *Picture) {
	var theirs []string
	if p.Snapshot == nil {
		return
	}
	for _, pool := range p.Snapshot.NodePools {
		if ref := pool.Spec.Template.Spec.NodeClassRef; ref != nil && ref.Group == "eks.amazonaws.com" {
			theirs = append(theirs, pool.Name)
		}
	}
	if len(theirs) > 0 {
		l.warning("NodePool "+some(theirs, 3), "EKS Auto Mode runs these pools, with CRDs of its own version, and starts machines for the same pods",
			"leave its pools and CRDs to it, or turn off its compute: aws eks update-cluster-config")
	}
}

func leader(held []*coordinationv1.Lease) string {
	if len(held) == 0 {
		return "one Deployment of the autoscaler is ready; nobody holds its Lease"
	}
	return "one controller leads: " + *held[0].Spec.HolderIdentity
}

func namespaces(leases []*coordinationv1.Lease) (out []string) {
	for _, l := range leases {
		out = append(out, l.Namespace)
	}
	slices.Sort(out)
	return out
}

func named(d *appsv1.Deployment) string { return "Deployment " + d.Namespace + "/" + d.Name }

func replicas(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

func isKarpenter(d *appsv1.Deployment) bool {
	return slices.Contains([]string{"karpenter", "tenon"}, d.Spec.Template.Labels["app.kubernetes.io/name"])
}

// ClusterAutoscalers returns the Deployments that run Cluster Autoscaler.
func ClusterAutoscalers(all []*appsv1.Deployment) (out []*appsv1.Deployment) {
	for _, d := range all {
		if replicas(d) > 0 && isClusterAutoscaler(d) {
			out = append(out, d)
		}
	}
	return out
}

func isClusterAutoscaler(d *appsv1.Deployment) bool {
	for _, c := range d.Spec.Template.Spec.Containers {
		if strings.Contains(c.Image, "/cluster-autoscaler") || strings.HasPrefix(c.Image, "cluster-autoscaler") {
			return true
		}
	}
	return d.Name == "cluster-autoscaler" || strings.HasSuffix(d.Spec.Template.Labels["app.kubernetes.io/name"], "cluster-autoscaler")
}

// holder returns the present holder of a lease. It returns "" if there is none.
func holder(lease *coordinationv1.Lease, now time.Time) string {
	s := lease.Spec
	if s.HolderIdentity == nil || s.RenewTime == nil || s.LeaseDurationSeconds == nil || now.Sub(s.RenewTime.Time) > time.Duration(*s.LeaseDurationSeconds)*time.Second {
		return ""
	}
	return *s.HolderIdentity
}

// rights reports the rights that the controller lacks.
func rights(p *Picture) []provider.Finding {
	l := list{check: "rbac"}
	if p.Account == "" {
		return nil
	}
	if len(p.Denied) > 0 {
		l.problem("ServiceAccount "+p.Account, "it may not "+some(p.Denied, 5), "install the chart's roles again: helm upgrade --install karpenter; the rights of a feature gate come with its value, settings.featureGates, not with FEATURE_GATES")
	}
	return l.or("ServiceAccount " + p.Account + " may do all that the controller does")
}

// hooks finds webhooks without a ready endpoint, and webhooks that older versions of Karpenter left behind.
func hooks(p *Picture) []provider.Finding {
	l := list{check: "webhook"}
	for _, h := range p.Hooks {
		object := h.Kind + " " + h.Configuration
		old := strings.Contains(h.Configuration, "karpenter.sh") || strings.Contains(h.Configuration, "karpenter.k8s.aws")
		dead := h.Service != "" && h.Endpoints == 0
		remove := "kubectl delete " + strings.ToLower(h.Kind) + " " + h.Configuration
		switch touched := touches(h); {
		case old && dead:
			l.problem(object, "an older Karpenter left it behind, and its service "+h.Service+" does not answer: pools and classes cannot be written", remove)
		case old:
			l.warning(object, "it is of a Karpenter before 1.1", remove+", once that version is gone")
		case dead && h.Refuses && touched != "":
			l.problem(object, fmt.Sprintf("webhook %s refuses to let %s be written: its service %s has no ready endpoint", h.Name, touched, h.Service),
				"start what answers it, or "+remove)
		case h.ExternalName != "" && h.Refuses && touched != "":
			l.warning(object, fmt.Sprintf("webhook %s refuses to let %s be written while %s does not answer: its service %s is of type ExternalName, so that it is not known here whether it does",
				h.Name, touched, h.ExternalName, h.Service), `where events say "failed calling webhook": start what answers it, or `+remove)
		}
	}
	return l.or(count(len(p.Hooks), "webhook") + " looked at")
}

// touches names the objects of the autoscaler and its pods that the webhook intercepts. It returns "" if there are none.
func touches(h Hook) string {
	var out []string
	for _, r := range h.Rules {
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				resource, _, _ = strings.Cut(resource, "/")
				core := group == "" || group == "*"
				switch {
				case core && (resource == "*" || resource == "pods" || resource == "nodes"):
					out = append(out, strings.ReplaceAll(resource, "*", "pods and nodes"))
				case group == v1.Group || strings.HasPrefix(group, "karpenter."):
					out = append(out, resource+"."+group)
				}
			}
		}
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ", ")
}
