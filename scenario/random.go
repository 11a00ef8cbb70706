package scenario

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"tenon.sh/engine"
)

// Size is the size of a random scenario. The zero value is a small cluster.
type Size struct {
	Pods  int // pending pods, in groups of equal ones; 0 means 30
	Nodes int // existing nodes; 0 means 4, below 0 none
	Types int // instance types; 0 means 8
	Pools int // 0 means 3
	// Topology adds relations between pods and to volumes: spreads, affinity and anti-affinity, hard and soft, host ports, volumes,
	// priorities, reservations and minValues.
	Topology bool
	// Wide adds features of large clusters: types above 96 cores and pods that need them, offerings with labels of their own, pods and
	// machines of different age.
	Wide bool
	// Quotas adds quotas of the cloud: for two families, for all machines on demand together, and for spot machines.
	Quotas bool
}

// Random returns a cluster that depends only on the arguments. It has pools with weights, limits, taints and requirements, instance types of
// all shapes and prices, nodes in all states of their life, and pods with many kinds of requests, some of which cannot be met. It is for
// tests of laws that must hold on every cluster.
func Random(seed uint64, size Size) *engine.Snapshot {
	text := RandomText(seed, size)
	f, err := Parse(text)
	if err != nil {
		panic(fmt.Sprintf("random scenario %d: %v\n%s", seed, err, text))
	}
	return f.Snapshot
}

// RandomText returns the scenario of Random as text, for the report of a broken law.
func RandomText(seed uint64, size Size) string {
	d := &dice{Rand: rand.New(rand.NewPCG(seed, 0x7e404)), size: size.orDefaults()}
	fmt.Fprintf(&d.out, "# random scenario, seed %d\n", seed)
	d.types()
	d.quotas()
	d.pools()
	if d.size.Topology {
		d.surroundings()
	}
	d.nodes()
	d.daemons()
	d.pods()
	return d.out.String()
}

func (s Size) orDefaults() Size {
	if s.Pods == 0 {
		s.Pods = 30
	}
	if s.Nodes == 0 {
		s.Nodes = 4
	}
	if s.Types == 0 {
		s.Types = 8
	}
	if s.Pools == 0 {
		s.Pools = 3
	}
	return s
}

// dice writes the lines of a random scenario.
type dice struct {
	*rand.Rand
	size  Size
	out   strings.Builder
	names []typeName
	taint []string // of each pool, "" for none
	disks []string // claims in namespace default
}

type typeName struct {
	name  string
	zones []string
}

func (d *dice) line(format string, args ...any) { fmt.Fprintf(&d.out, format+"\n", args...) }

// chance returns true in one of n cases.
func (d *dice) chance(n int) bool { return d.IntN(n) == 0 }

func pick[T any](d *dice, from ...T) T { return from[d.IntN(len(from))] }

// types writes types with the shapes of real catalogs: memory of 2, 4 or 8 GiB per core, and prices nearly proportional to size.
func (d *dice) types() {
	for i := range d.size.Types {
		cpu := pick(d, 1, 2, 2, 4, 4, 8, 16, 32)
		if d.size.Wide && d.chance(5) {
			cpu = pick(d, 64, 96, 128, 192)
		}
		factor := pick(d, 2, 4, 4, 8)
		price := float64(cpu) * (0.02 + 0.005*float64(factor)) * (0.8 + 0.4*d.Float64())
		t := typeName{name: fmt.Sprintf("t%d", i), zones: []string{"a"}}
		for _, z := range []string{"b", "c"} {
			if !d.chance(3) {
				t.zones = append(t.zones, z)
			}
		}
		words := fmt.Sprintf("type %s cpu=%d mem=%dGi pods=%d storage=20Gi zones=%s overhead=cpu:100m,mem:200Mi", t.name, cpu, cpu*factor,
			pick(d, 8, 30, 110), strings.Join(t.zones, ","))
		if d.chance(6) {
			words += fmt.Sprintf(" nvidia.com/gpu=%d", pick(d, 1, 2, 4))
			price *= 4
		}
		words += fmt.Sprintf(" price=%.4f", price)
		if !d.chance(3) {
			words += fmt.Sprintf(" spot=%.4f", price*(0.3+0.3*d.Float64()))
		}
		if d.chance(4) {
			words += " arch=arm64"
		}
		if d.chance(5) {
			words += " sold-out=" + pick(d, t.zones...)
		}
		words += " labels=family:" + pick(d, "c", "m", "r")
		words += d.topological(func() string { return d.typeTies(t, price) })
		if d.size.Wide && d.chance(4) {
			words += fmt.Sprintf(" offer=(zone=%s price=%.4f labels=group:%s)", pick(d, t.zones...), price, pick(d, "g1", "g2"))
		}
		if d.size.Quotas {
			words += fmt.Sprintf(" quota=family%d:%d,cores:%d spot-quota=spot:%d", i%2, cpu, cpu, cpu)
		}
		d.names = append(d.names, t)
		d.line("%s", words)
	}
}

func (d *dice) quotas() {
	if !d.size.Quotas {
		return
	}
	for _, name := range []string{"family0", "family1", "cores", "spot"} {
		if !d.chance(4) {
			d.line("quota %s left=%d limit=100 unit=vCPUs%s", name, d.IntN(70)-5, pick(d, "", "", " read=3m"))
		}
	}
}

func (d *dice) pools() {
	for i := range d.size.Pools {
		words := fmt.Sprintf("pool p%d", i)
		taint := ""
		if i > 0 { // the first pool admits all pods
			if d.chance(2) {
				words += fmt.Sprintf(" weight=%d", 1+d.IntN(3)*10)
			}
			if d.chance(3) {
				taint = fmt.Sprintf("team=t%d:NoSchedule", i)
				words += " taint=" + taint
			}
			words += pick(d, "", "", " zone in (a,b)", " zone notin (a)", " arch in (arm64)", " capacity in (spot)", " family exists")
			words += pick(d, "", "", " limits=cpu:24", " limits=nodes:3,mem:96Gi", " limits=cpu:8")
		}
		words += pick(d, "", " labels=tier:gold", " labels=tier:silver")
		words += pick(d, "", " startup-taint=example.com/starting:NoSchedule")
		words += pick(d, " capacity in (on-demand)", " capacity in (spot,on-demand)", "")
		words += pick(d, "", " consolidate-after=5m", " consolidate-after=Never") + pick(d, "", " budget=1", " budget=50%", " budget=100%")
		words += d.topological(d.poolTies)
		d.taint = append(d.taint, taint)
		d.line("%s", words)
	}
}

func (d *dice) nodes() {
	for i := range max(d.size.Nodes, 0) {
		t := pick(d, d.names...)
		pool := d.IntN(d.size.Pools)
		if d.chance(5) {
			d.line("node n%d cpu=%d mem=%dGi zone=a", i, 2+d.IntN(6), 4+d.IntN(12))
			continue
		}
		if d.chance(6) {
			d.line("claim n%d pool=p%d type=%s zone=%s age=1m", i, pool, t.name, pick(d, t.zones...))
			continue
		}
		state := pick(d, "", "", "", " unregistered", " uninitialized", " not-ready", " cordoned", " deleting")
		d.line("node n%d pool=p%d type=%s zone=%s age=%dm quiet=%dm%s", i, pool, t.name, pick(d, t.zones...), 30+d.IntN(600), d.IntN(20), state)
		if state != "" || d.chance(3) {
			continue
		}
		for j := range 1 + d.IntN(3) {
			words := fmt.Sprintf("pod run-%d-%d cpu=%dm mem=%dMi node=n%d age=10m", i, j, 50+d.IntN(150), 64+d.IntN(256), i)
			if d.taint[pool] != "" {
				words += " tolerate=" + d.taint[pool]
			}
			words += pick(d, " owner=Deployment", " owner=StatefulSet", " owner=Job", " owner=DaemonSet", "")
			d.line("%s", words+d.topological(d.runningTies))
		}
	}
}

func (d *dice) daemons() {
	for i := range d.IntN(3) {
		words := fmt.Sprintf("daemonset d%d cpu=%dm mem=%dMi", i, 10*(1+d.IntN(10)), 16*(1+d.IntN(10)))
		d.line("%s", words+pick(d, "", " tolerate=*", " arch in (amd64)", " select=tier:gold"))
	}
}

func (d *dice) pods() {
	for left, group := d.size.Pods, 0; left > 0; group++ {
		count := min(left, 1+d.IntN(12))
		left -= count
		words := fmt.Sprintf("pods g%d x%d cpu=%dm mem=%dMi", group, count, pick(d, 50, 100, 250, 500, 900, 1500, 3000), pick(d, 64, 128, 500, 1024, 3000, 8000))
		words += d.wishes()
		if d.size.Wide {
			words += d.breadth()
		}
		d.line("%s", words+d.topological(func() string { return d.ties(group, count) }))
	}
}

// breadth returns the age of a group of pods, and sometimes a request that few machines meet.
func (d *dice) breadth() string {
	words := fmt.Sprintf(" age=%dm", 1+d.IntN(20))
	if d.chance(12) {
		words += pick(d, " container=(cpu=100)", " container=(cpu=60)", " group in (g1)", " group exists", " group notin (g1)")
	}
	return words
}

// wishes returns the constraints of a group of pods: usually none.
func (d *dice) wishes() string {
	words := ""
	if d.chance(4) {
		words += pick(d, " zone in (a)", " zone notin (b)", " select=zone:c", " zone in (a) or zone in (b)", " arch in (arm64)", " arch in (amd64,arm64)",
			" capacity in (spot)", " capacity in (on-demand)", " family in (c,m)", " family notin (r)", " type notin (t0,t1)", " tier exists",
			" select=tier:gold", " zone in (nowhere)", " pool in (p0,p1)")
	}
	if d.chance(4) {
		words += pick(d, " tolerate=*", " tolerate=team=t1:NoSchedule", " tolerate=team")
	}
	if d.chance(8) {
		words += pick(d, " init=(cpu=2 mem=512Mi)", " sidecar=(cpu=100m mem=64Mi)", " overhead=cpu:50m,mem:32Mi", " pod-level=cpu:1,mem:1Gi", " container=(cpu=50m)")
	}
	if d.chance(10) {
		words += " nvidia.com/gpu=1"
	}
	if d.chance(12) {
		words += " storage=1Gi"
	}
	if d.chance(20) {
		words += pick(d, " gated", " untried", " cpu=100", " example.com/unknown=1")
	}
	return words
}
