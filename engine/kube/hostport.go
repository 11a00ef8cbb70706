package kube

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// EveryAddress means all addresses of a node.
const EveryAddress = "0.0.0.0"

// HostPort is a port of the node that a pod uses.
type HostPort struct {
	Protocol, Address string
	Port              int32
}

// Collides reports whether two pods with these ports cannot share a node. Like kube-scheduler it treats only 0.0.0.0 as all addresses, and any
// other address as one.
func (p HostPort) Collides(other HostPort) bool {
	return p.Port == other.Port && p.Protocol == other.Protocol &&
		(p.Address == other.Address || p.Address == EveryAddress || other.Address == EveryAddress)
}

// HostPorts counts the ports that pods hold on a node. The zero value holds none.
type HostPorts struct {
	held map[HostPort]int // an entry without an address counts all ports with its number and protocol
}

// Add adds the ports of a pod if by is 1, and removes them if by is -1.
func (h *HostPorts) Add(ports []HostPort, by int) {
	if h.held == nil && len(ports) > 0 {
		h.held = map[HostPort]int{}
	}
	for _, p := range ports {
		h.held[p] += by
		h.held[HostPort{Protocol: p.Protocol, Port: p.Port}] += by
	}
}

// Collide reports whether some of the ports collides with one that is held.
func (h *HostPorts) Collide(ports []HostPort) bool {
	if h.held == nil {
		return false
	}
	return slices.ContainsFunc(ports, func(p HostPort) bool {
		if p.Address == EveryAddress {
			p.Address = ""
			return h.held[p] > 0
		}
		every := p
		every.Address = EveryAddress
		return h.held[p] > 0 || h.held[every] > 0
	})
}

// HostPortsOf lists the node's ports that the pod holds while it runs, sorted and without duplicates: those of its containers and of its init
// containers that keep running. With hostNetwork every port of a container is one of the node, as in the API server.
func HostPortsOf(spec *corev1.PodSpec) []HostPort {
	var out []HostPort
	for i := range spec.InitContainers {
		if c := &spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			out = appendPorts(out, c.Ports, spec.HostNetwork)
		}
	}
	for i := range spec.Containers {
		out = appendPorts(out, spec.Containers[i].Ports, spec.HostNetwork)
	}
	slices.SortFunc(out, func(a, b HostPort) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Address, b.Address))
	})
	return slices.Compact(out)
}

func appendPorts(out []HostPort, ports []corev1.ContainerPort, onHost bool) []HostPort {
	for i := range ports {
		p := HostPort{Protocol: string(ports[i].Protocol), Address: ports[i].HostIP, Port: ports[i].HostPort}
		if p.Port == 0 && onHost {
			p.Port = ports[i].ContainerPort
		}
		if p.Port <= 0 {
			continue
		}
		if p.Protocol == "" {
			p.Protocol = string(corev1.ProtocolTCP)
		}
		if p.Address == "" {
			p.Address = EveryAddress
		}
		out = append(out, p)
	}
	return out
}
