package clusterapi

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	"tenon.sh/provider"
	"tenon.sh/provider/clusterapi/contract"
)

// clusterAutoscaler is a Cluster Autoscaler that scales MachineDeployments with both size annotations. If it has discoveries, it scales only
// the MachineDeployments that one of them matches.
type clusterAutoscaler struct {
	name        string
	discoveries []groupDiscovery
}

// groupDiscovery is one --node-group-auto-discovery of Cluster Autoscaler. An empty field matches all.
type groupDiscovery struct {
	namespace, cluster string
	labels             map[string]string
}

// clusterAutoscalerOf reads the flags of a Cluster Autoscaler. It returns false if the Cluster Autoscaler is for another cloud.
func clusterAutoscalerOf(d *appsv1.Deployment) (*clusterAutoscaler, bool) {
	out, ours := &clusterAutoscaler{name: "Deployment " + d.Namespace + "/" + d.Name}, false
	for _, c := range d.Spec.Template.Spec.Containers {
		words := strings.Fields(strings.Join(slices.Concat(c.Command, c.Args), " "))
		for i, word := range words {
			flag, value, given := strings.Cut(strings.TrimLeft(word, "-"), "=")
			if !strings.HasPrefix(word, "-") {
				continue
			}
			if !given && i+1 < len(words) {
				value = words[i+1]
			}
			switch flag {
			case "cloud-provider":
				ours = ours || value == "clusterapi"
			case "node-group-auto-discovery":
				if text, ok := strings.CutPrefix(value, "clusterapi:"); ok {
					out.discoveries = append(out.discoveries, discoveryOf(text))
				}
			}
		}
	}
	return out, ours
}

// discoveryOf parses "namespace=default,clusterName=prod,team=a". Each part may be missing.
func discoveryOf(text string) groupDiscovery {
	out := groupDiscovery{labels: map[string]string{}}
	for _, pair := range strings.Split(text, ",") {
		switch key, value, _ := strings.Cut(strings.TrimSpace(pair), "="); key {
		case "":
		case "namespace":
			out.namespace = value
		case "clusterName":
			out.cluster = value
		default:
			out.labels[key] = value
		}
	}
	return out
}

// scales reports whether the Cluster Autoscaler scales the MachineDeployment.
func (a *clusterAutoscaler) scales(d *contract.MachineDeployment) bool {
	for _, key := range []string{contract.MinSizeAnnotation, contract.MaxSizeAnnotation} {
		if _, ok := d.Annotations[key]; !ok {
			return false
		}
	}
	return len(a.discoveries) == 0 || slices.ContainsFunc(a.discoveries, func(w groupDiscovery) bool {
		for key, value := range w.labels {
			if has, ok := d.Labels[key]; !ok || has != value {
				return false
			}
		}
		return (w.namespace == "" || w.namespace == d.Namespace) && (w.cluster == "" || w.cluster == d.Spec.ClusterName)
	})
}

// examineAutoscalers finds MachineDeployments that classes select and that a Cluster Autoscaler scales as well.
func examineAutoscalers(running []*appsv1.Deployment, selected []*selectedDeployment) (out []provider.Finding) {
	for _, d := range running {
		a, ours := clusterAutoscalerOf(d)
		if !ours {
			continue
		}
		alone := true
		for _, s := range selected {
			if !a.scales(s.MachineDeployment) {
				continue
			}
			alone = false
			out = append(out, provider.Finding{Level: provider.Problem, Check: checkClasses, Object: s.object(),
				Says: fmt.Sprintf("%s scales it too, by its size annotations, and ClusterAPINodeClass %s selects it: each removes machines that the other has started", a.name, strings.Join(s.classes, ", ")),
				Do:   "remove its annotation " + contract.MinSizeAnnotation + ", or give Cluster Autoscaler --node-group-auto-discovery=clusterapi:<label>=<value> of a label that it does not have"})
		}
		if alone {
			out = append(out, provider.Finding{Level: provider.OK, Check: checkClasses, Object: a.name, Says: "it scales no MachineDeployment that a ClusterAPINodeClass selects"})
		}
	}
	return out
}
