package scenario

import (
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// specWord reads the words that end in a pod's spec.
func (p *podLine) specWord(w word) (handled bool, err error) {
	spec := &p.pod.Spec
	key, value := w.cut()
	switch key {
	case "or":
		terms := &p.required().NodeSelectorTerms
		if len(*terms) == 0 {
			return true, w.errorf("there is no requirement before this")
		}
		*terms = append(*terms, corev1.NodeSelectorTerm{})
	case "limits":
		list, err := w.resources()
		if err != nil {
			return true, err
		}
		if p.app.Resources.Limits == nil {
			p.app.Resources.Limits = corev1.ResourceList{}
		}
		maps.Copy(p.app.Resources.Limits, list)
	case "container":
		c, err := w.container("app-" + strconv.Itoa(len(spec.Containers)+2))
		spec.Containers = append(spec.Containers, c)
		return true, err
	case "init", "sidecar":
		c, err := w.container(key + "-" + strconv.Itoa(len(spec.InitContainers)+1))
		if key == "sidecar" {
			c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}
		spec.InitContainers = append(spec.InitContainers, c)
		return true, err
	case "overhead":
		spec.Overhead, err = w.resources()
	case "pod-level":
		list, err := w.resources()
		spec.Resources = &corev1.ResourceRequirements{Requests: list}
		return true, err
	case "select":
		w.addLabels(&spec.NodeSelector)
	case "tolerate":
		spec.Tolerations = append(spec.Tolerations, w.toleration())
	case "port":
		n, err := w.number()
		p.app.Ports = append(p.app.Ports, corev1.ContainerPort{HostPort: int32(n), ContainerPort: int32(n)})
		return true, err
	case "priority":
		n, err := w.number()
		spec.Priority = ptr.To(int32(n))
		return true, err
	case "prefer":
		return true, p.prefer(w)
	case "spread":
		return true, p.spread(w)
	case "together", "apart":
		p.podAffinity(key, labelKey(value))
	default:
		return false, nil
	}
	return true, err
}

// container reads (cpu=1 mem=1Gi name=x).
func (w word) container(name string) (corev1.Container, error) {
	c := corev1.Container{Name: name, Image: "app"}
	key, _ := w.cut()
	r, err := w.group(key)
	if err != nil {
		return c, err
	}
	for r.more() {
		w := r.next()
		if !w.isResource() {
			return c, r.unknown(w, "cpu= mem= and other resources")
		}
		if err := addRequest(w, &c); err != nil {
			return c, err
		}
	}
	return c, nil
}

// prefer reads prefer=(zone in (a) weight=10).
func (p *podLine) prefer(w word) error {
	r, err := w.group("prefer")
	if err != nil {
		return err
	}
	term := corev1.PreferredSchedulingTerm{Weight: 1}
	for r.more() {
		if r.atRequirement() {
			req, err := r.requirement()
			if err != nil {
				return err
			}
			term.Preference.MatchExpressions = append(term.Preference.MatchExpressions, selectorRequirement(req))
			continue
		}
		w := r.next()
		if key, _ := w.cut(); key != "weight" {
			return r.unknown(w, "requirements and weight=")
		}
		n, err := w.number()
		if err != nil {
			return err
		}
		term.Weight = int32(n)
	}
	list := &p.nodeAffinity().PreferredDuringSchedulingIgnoredDuringExecution
	*list = append(*list, term)
	return nil
}

// spread reads spread=zone or spread=(zone skew=2 soft): a topology spread constraint over the pods of the statement.
func (p *podLine) spread(w word) error {
	_, value := w.cut()
	words, err := splitWords(w.line, strings.Trim(value, "()"))
	if err != nil || len(words) == 0 {
		return w.errorf("write spread=zone or spread=(zone skew=2 soft)")
	}
	c := corev1.TopologySpreadConstraint{
		MaxSkew: 1, TopologyKey: labelKey(words[0].text), WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: p.selector(),
	}
	for _, w := range words[1:] {
		key, _ := w.cut()
		switch key {
		case "soft":
			c.WhenUnsatisfiable = corev1.ScheduleAnyway
		case "skew":
			n, err := w.number()
			if err != nil {
				return err
			}
			c.MaxSkew = int32(n)
		default:
			return w.errorf("spread has no such word; it has skew= soft")
		}
	}
	p.pod.Spec.TopologySpreadConstraints = append(p.pod.Spec.TopologySpreadConstraints, c)
	return nil
}

func (p *podLine) selector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.name}}
}

// podAffinity asks for the pods of the statement to be in one domain, or in one domain each.
func (p *podLine) podAffinity(how, key string) {
	terms := []corev1.PodAffinityTerm{{TopologyKey: key, LabelSelector: p.selector()}}
	if how == "together" {
		p.affinity().PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
		return
	}
	p.affinity().PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
}
