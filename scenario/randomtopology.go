package scenario

import "fmt"

// This file writes the parts of a random scenario that relate pods to one another and to volumes. It draws no random numbers unless
// Size.Topology is set, so that scenarios without topology stay the same.

// topological returns the words, or "" if topology is off.
func (d *dice) topological(words func() string) string {
	if !d.size.Topology {
		return ""
	}
	return words()
}

// typeTies returns limits of attached volumes, and reserved machines.
func (d *dice) typeTies(t typeName, price float64) string {
	words := ""
	if !d.chance(3) {
		words += fmt.Sprintf(" attach=disk.example.com:%d", pick(d, 1, 2, 3, 8, 25))
	}
	if d.chance(4) {
		words += fmt.Sprintf(" offer=(zone=%s reserved=%s slots=%d price=%.4f)", pick(d, t.zones...), pick(d, "r0", "r1", "r-"+t.name), 1+d.IntN(3), price*0.01)
	}
	return words
}

func (d *dice) poolTies() string {
	return pick(d, "", "", "", " family in (c,m,r) min=2", " family exists min=2", " capacity in (reserved,on-demand)", " capacity in (reserved,spot,on-demand)")
}

// surroundings writes the objects that pods refer to.
func (d *dice) surroundings() {
	d.line("namespace blue labels=team:a")
	d.line("namespace green labels=team:b")
	d.line("service front select=tier:front")
	d.line("replicaset g0")
	d.line("statefulset g1")
	d.line("storageclass wide wait")
	d.line("storageclass narrow wait zones=%s", pick(d, "a", "a,b", "b,c"))
	d.line("storageclass now")
	for i := range 3 + d.IntN(4) {
		d.disk(fmt.Sprintf("d%d", i))
	}
}

// disk writes a claim for pods, in one of its possible states.
func (d *dice) disk(name string) {
	d.disks = append(d.disks, name)
	zone := pick(d, "a", "b", "c")
	switch d.IntN(8) {
	case 0, 1:
		d.line("volume v-%s zone=%s claim=%s", name, zone, name)
	case 2:
		d.line("volume v-%s labels=zone:%s claim=%s", name, zone, name)
	case 3:
		d.line("volume v-%s zone=%s", name, zone)
		d.line("disk %s volume=v-%s rwop", name, name)
	case 4, 5:
		d.line("disk %s class=%s", name, pick(d, "wide", "narrow"))
	case 6:
		d.line("volume v-%s zone=%s class=wide", name, zone)
		d.line("disk %s class=wide", name)
	default:
		d.line("disk %s class=%s%s", name, pick(d, "now", "nowhere", "wide"), pick(d, "", " lost", " deleting"))
	}
}

// runningTies returns words of a running pod: labels, anti-affinity, ports and volumes.
func (d *dice) runningTies() string {
	words := fmt.Sprintf(" labels=app:g%d,tier:%s", d.IntN(6), pick(d, "front", "back"))
	if d.chance(5) {
		words += pick(d, " apart=(hostname of=tier:front)", " apart=(zone of=app:g1)", " apart=(hostname of=tier:back all-ns weight=50)",
			" together=(zone of=app:g2 weight=20)", " apart=(zone of=app:g3 ns-labels=team:a)")
	}
	if d.chance(5) {
		words += " port=" + d.port()
	}
	switch {
	case d.chance(5) && len(d.disks) > 0:
		words += " disk=" + pick(d, d.disks...)
	case d.chance(5):
		words += " scratch=wide"
	}
	return words + d.priority()
}

func (d *dice) port() string {
	return pick(d, "8080", "8080", "9090", "53/udp", "53/tcp", "8080/tcp@10.0.0.1", "8080/tcp@10.0.0.2")
}

func (d *dice) priority() string {
	return pick(d, "", "", "", "", " priority=10", " priority=100", " priority=-5")
}

// ties returns the constraints of a group of pods on other pods and on volumes. The group's number lets it name itself and other groups.
func (d *dice) ties(group, count int) string {
	other := fmt.Sprintf("app:g%d", d.IntN(group+2))
	words := pick(d, "", " labels=tier:front", " labels=tier:back", " labels=tier:front,hash:x")
	if d.chance(3) {
		words += pick(d, " spread=zone", " spread=hostname", " spread=(zone skew=2)", " spread=(zone soft)", " spread=(hostname soft)",
			" spread=(zone min=2)", " spread=(zone min=4)", " spread=(capacity)", " spread=(zone of="+other+")", " spread=(hostname skew=3 of=tier:front)",
			" spread=(zone affinity-policy=ignore)", " spread=(hostname taints-policy=honor)", " spread=(zone match-keys=hash)",
			" spread=zone spread=(hostname skew=2)", " spread=(arch) spread=(zone soft)", " spread=(rack)", " spread=(family skew=2)")
	}
	if d.chance(3) {
		words += pick(d, " apart=hostname", " apart=hostname", " apart=zone", " apart=(hostname of="+other+")", " apart=(zone of="+other+")",
			" apart=(hostname of=tier:front all-ns)", " apart=(hostname ns=blue,default)", " apart=(zone of=tier:back ns-labels=team:a)",
			" apart=(hostname weight=100)", " apart=(zone weight=30)", " apart=(hostname match-keys=hash)", " apart=(hostname of=tier:front mismatch-keys=hash)")
	}
	if d.chance(4) {
		words += pick(d, " together=zone", " together=hostname", " together=(zone of="+other+")", " together=(hostname of="+other+")",
			" together=(zone of=tier:back)", " together=(zone of="+other+" weight=60)", " together=(hostname weight=5)", " together=(capacity)",
			" together=(zone of=app:nobody)")
	}
	if d.chance(6) {
		words += pick(d, " prefer=(zone in (a) weight=50)", " prefer=(capacity in (spot) weight=100)", " prefer=(arch in (arm64) weight=1)", " prefer=(type in (t0))")
	}
	if d.chance(8) {
		words += " port=" + d.port()
	}
	if d.chance(8) {
		words += pick(d, " ns=blue", " ns=green", " ns=black")
	} else {
		words += d.mounts(count)
	}
	return words + pick(d, "", "", " owner=ReplicaSet", " owner=StatefulSet") + d.priority()
}

// mounts usually returns ephemeral volumes or disks of one pod. Sometimes several pods share a disk.
func (d *dice) mounts(count int) string {
	switch {
	case d.chance(5):
		return " scratch=" + pick(d, "wide", "wide", "narrow", "wide,wide", "now")
	case d.chance(6) && (count == 1 || d.chance(3)):
		return " disk=" + pick(d, d.disks...)
	case d.chance(20):
		return " disk=" + d.disks[0] + "," + d.disks[1]
	}
	return ""
}
