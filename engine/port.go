package engine

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// everyAddress is the address that stands for all addresses of a node.
const everyAddress = "0.0.0.0"

// hostPort is a port that a pod takes of its node's own.
type hostPort struct {
	protocol, address string
	port              int32
}

// collides reports whether two pods that have these ports cannot share a node. Like kube-scheduler it knows one address
// that stands for all, 0.0.0.0, and takes any other for itself only.
func (p hostPort) collides(other hostPort) bool {
	return p.port == other.port && p.protocol == other.protocol &&
		(p.address == other.address || p.address == everyAddress || other.address == everyAddress)
}

// hostPortsOf lists the ports that the pod holds as long as it runs, in order and none of them twice: those of its
// containers and of the init containers that keep running. On the host's network every port of a container is one of
// the host, as the API server has it.
func hostPortsOf(spec *corev1.PodSpec) []hostPort {
	var out []hostPort
	for i := range spec.InitContainers {
		if c := &spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			out = appendPorts(out, c.Ports, spec.HostNetwork)
		}
	}
	for i := range spec.Containers {
		out = appendPorts(out, spec.Containers[i].Ports, spec.HostNetwork)
	}
	slices.SortFunc(out, func(a, b hostPort) int {
		return cmp.Or(cmp.Compare(a.port, b.port), cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.address, b.address))
	})
	return slices.Compact(out)
}

func appendPorts(out []hostPort, ports []corev1.ContainerPort, onHost bool) []hostPort {
	for i := range ports {
		p := hostPort{protocol: string(ports[i].Protocol), address: ports[i].HostIP, port: ports[i].HostPort}
		if p.port == 0 && onHost {
			p.port = ports[i].ContainerPort
		}
		if p.port <= 0 {
			continue
		}
		if p.protocol == "" {
			p.protocol = string(corev1.ProtocolTCP)
		}
		if p.address == "" {
			p.address = everyAddress
		}
		out = append(out, p)
	}
	return out
}
