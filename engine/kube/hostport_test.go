package kube

import (
	"math/rand/v2"
	"slices"
	"testing"

	"tenon.sh/engine/enginetest"
)

func TestHostPortsOfAPod(t *testing.T) {
	t.Parallel()
	tcp := func(port int32) HostPort { return HostPort{"TCP", EveryAddress, port} }
	for _, c := range []struct {
		name, spec string
		want       []HostPort
	}{
		{"a container's", `containers: [{ports: [{containerPort: 80, hostPort: 8080}]}]`, []HostPort{tcp(8080)}},
		{"a port of the pod alone", `containers: [{ports: [{containerPort: 80}]}]`, nil},
		{"a sidecar's", `initContainers: [{restartPolicy: Always, ports: [{hostPort: 9}]}]`, []HostPort{tcp(9)}},
		{"an init container is gone when the pod runs", `initContainers: [{ports: [{hostPort: 9}]}]`, nil},
		{"on the host's network", `{hostNetwork: true, containers: [{ports: [{containerPort: 80}, {containerPort: 81, hostPort: 81}]}]}`, []HostPort{tcp(80), tcp(81)}},
		{
			"in one order, none twice", `containers: [{ports: [{hostPort: 9, protocol: UDP}, {hostPort: 9, hostIP: 10.0.0.1}, {hostPort: 9}]}, {ports: [{hostPort: 9, protocol: TCP}, {hostPort: 7}]}]`,
			[]HostPort{tcp(7), tcp(9), {"TCP", "10.0.0.1", 9}, {"UDP", EveryAddress, 9}},
		},
	} {
		if got := HostPortsOf(&enginetest.PodWith(t, c.spec).Spec); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestHostPortsCollide(t *testing.T) {
	t.Parallel()
	port := func(protocol, address string, n int32) HostPort { return HostPort{protocol, address, n} }
	for _, c := range []struct {
		a, b HostPort
		want bool
	}{
		{port("TCP", "0.0.0.0", 80), port("TCP", "0.0.0.0", 80), true},
		{port("TCP", "0.0.0.0", 80), port("TCP", "0.0.0.0", 81), false},
		{port("TCP", "0.0.0.0", 80), port("UDP", "0.0.0.0", 80), false},
		{port("TCP", "0.0.0.0", 80), port("TCP", "10.0.0.1", 80), true},
		{port("TCP", "10.0.0.1", 80), port("TCP", "10.0.0.1", 80), true},
		{port("TCP", "10.0.0.1", 80), port("TCP", "10.0.0.2", 80), false},
		{port("TCP", "::", 80), port("TCP", "10.0.0.2", 80), false},
	} {
		if c.a.Collides(c.b) != c.want || c.b.Collides(c.a) != c.want {
			t.Errorf("%v and %v collide: %v", c.a, c.b, !c.want)
		}
	}
}

// HostPorts agrees with a comparison of each port with each held port, also after some pods have left.
func TestHostPortsCollideAsEachWithEach(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(9, 10))
	draw := func() (ports []HostPort) {
		for range r.IntN(4) {
			ports = append(ports, HostPort{[]string{"TCP", "UDP"}[r.IntN(2)], []string{EveryAddress, "10.0.0.1", "10.0.0.2"}[r.IntN(3)], int32(1 + r.IntN(5))})
		}
		return ports
	}
	for range 2000 {
		var set HostPorts
		var pods [][]HostPort
		for range r.IntN(5) {
			pods = append(pods, draw())
			set.Add(pods[len(pods)-1], 1)
		}
		if len(pods) > 0 && r.IntN(2) == 0 {
			set.Add(pods[0], -1)
			pods = pods[1:]
		}
		ports := draw()
		want := slices.ContainsFunc(slices.Concat(pods...), func(held HostPort) bool { return slices.ContainsFunc(ports, held.Collides) })
		if got := set.Collide(ports); got != want {
			t.Fatalf("%v beside %v: %t", ports, pods, got)
		}
	}
}
