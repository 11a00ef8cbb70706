package scenario

import (
	"cmp"
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// specWord reads the words that change a pod's spec.
func (p *podLine) specWord(w word) (handled bool, err error) {
	spec := &p.pod.Spec
	key, _ := w.cut()
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
	case "runtime":
		_, value := w.cut()
		spec.RuntimeClassName = &value
	case "pod-level":
		list, err := w.resources()
		spec.Resources = &corev1.ResourceRequirements{Requests: list}
		return true, err
	case "select":
		w.addLabels(&spec.NodeSelector)
	case "tolerate":
		spec.Tolerations = append(spec.Tolerations, w.toleration())
	case "port":
		return true, w.addPort(&p.app)
	case "priority":
		if _, value := w.cut(); strings.Trim(value, "-0123456789") != "" {
			spec.PriorityClassName = value
			return true, nil
		}
		n, err := w.number32()
		spec.Priority = &n
		return true, err
	case "prefer":
		return true, p.prefer(w)
	case "spread":
		return true, p.spread(w)
	case "together", "apart":
		return true, p.podAffinity(w)
	case "disk":
		p.disks(w.list())
	case "scratch":
		p.scratch = append(p.scratch, w.list()...)
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
		switch key, _ := w.cut(); {
		case w.isResource():
			err = addRequest(w, &c)
		case key == "port":
			err = w.addPort(&c)
		default:
			err = r.unknown(w, "cpu= mem= and other resources, port=")
		}
		if err != nil {
			return c, err
		}
	}
	return c, nil
}

// addPort reads port=8080, port=53/udp or port=80/tcp@10.0.0.1: a host port, at one or all of the node's addresses.
func (w word) addPort(to *corev1.Container) error {
	_, value := w.cut()
	value, address, _ := strings.Cut(value, "@")
	number, protocol, _ := strings.Cut(value, "/")
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil || n == 0 {
		return w.errorf("write a port as 8080, 53/udp or 80/tcp@10.0.0.1")
	}
	port := corev1.ContainerPort{HostPort: int32(n), ContainerPort: int32(n), HostIP: address}
	switch port.Protocol = corev1.Protocol(strings.ToUpper(cmp.Or(protocol, "tcp"))); port.Protocol {
	case corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP:
	default:
		return w.errorf("the protocol is tcp, udp or sctp")
	}
	to.Ports = append(to.Ports, port)
	return nil
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
		n, err := w.number32()
		if err != nil {
			return err
		}
		term.Weight = n
	}
	list := &p.nodeAffinity().PreferredDuringSchedulingIgnoredDuringExecution
	*list = append(*list, term)
	return nil
}
