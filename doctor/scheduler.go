package doctor

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/provider"
)

// scheduler reports the assumed ranking of nodes by kube-scheduler. It cannot be read from the cluster, but a node's value depends on it.
func scheduler(p *Picture) []provider.Finding {
	l := list{check: "scheduler"}
	profiles := p.Options.Profiles
	for i := range profiles {
		if len(profiles[i].Unread) > 0 {
			l.warning(schedulerOf(&profiles[i]), "its configuration has what is not taken into account: "+strings.Join(profiles[i].Unread, ", "),
				"pods may land elsewhere than is expected, which costs machines that stay empty for a while")
		}
	}
	if others := l.strangers(p); len(others) > 0 && len(profiles) > 0 {
		l.warning("", "pods name schedulers that --scheduler-config has no profile for: "+some(others, 3), "they are taken to rank nodes as kube-scheduler does by default")
	}
	if len(profiles) == 0 {
		return l.or("assumed to rank nodes by kube-scheduler's defaults (LeastAllocated); --scheduler-config says otherwise")
	}
	var texts []string
	for i := range profiles {
		texts = append(texts, schedulerOf(&profiles[i])+" "+profileText(&profiles[i]))
	}
	return append(l.findings, provider.Finding{Check: l.check, Level: provider.OK, Says: "assumed: " + strings.Join(texts, "; ")})
}

// strangers returns the names of schedulers that pods name and that have no profile.
func (l *list) strangers(p *Picture) (names []string) {
	if p.Snapshot == nil {
		return nil
	}
	known := []string{"", corev1.DefaultSchedulerName}
	for _, profile := range p.Options.Profiles {
		if profile.SchedulerName == "" {
			return nil // it applies to all schedulers
		}
		known = append(known, profile.SchedulerName)
	}
	for _, pod := range p.Snapshot.Pods {
		if name := pod.Spec.SchedulerName; !slices.Contains(known, name) {
			known, names = append(known, name), append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func schedulerOf(p *engine.SchedulerProfile) string {
	if p.SchedulerName == "" {
		return "every scheduler"
	}
	return "scheduler " + p.SchedulerName
}

func profileText(p *engine.SchedulerProfile) string {
	strategy := string(p.Strategy)
	if p.Strategy == engine.LeastAllocated {
		strategy = "LeastAllocated"
	}
	text := []string{"scores by " + strategy}
	for i, r := range p.Resources {
		word := ","
		if i == 0 {
			word = " of"
		}
		text[0] += fmt.Sprintf("%s %s (weight %d)", word, r.Name, r.Weight)
	}
	names := make([]string, 0, len(p.Weights))
	for name := range p.Weights {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if p.Weights[name] == 0 {
			text = append(text, name+" off")
		} else {
			text = append(text, fmt.Sprintf("%s with weight %d", name, p.Weights[name]))
		}
	}
	if n := len(p.DefaultConstraints); n > 0 {
		text = append(text, fmt.Sprintf("%d default spread constraints", n))
	}
	return strings.Join(text, ", ")
}
