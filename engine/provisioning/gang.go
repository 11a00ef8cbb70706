package provisioning

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/constraints"
	"tenon.sh/engine/gang"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/packing"
)

// mostGangRounds bounds the plans that are made again because a gang cannot start. Then all gangs that cannot start are left out.
const mostGangRounds = 16

// readGangs holds the gangs that the first compilation of a call has read. The other compilations share them.
type readGangs struct {
	pass uint64
	*gang.Gangs
}

func knownGangs(s *engine.Snapshot, pods *inventory.PodIndex) *gang.Gangs {
	known := inventory.KeptBy[readGangs](pods.Cache)
	if known.pass != pods.Pass {
		*known = readGangs{pods.Pass, gang.Read(s)}
	}
	return known.Gangs
}

// shortGang is a gang that asks for machines, with its waiting pods that have no place in a plan.
type shortGang struct {
	*gang.Gang
	left map[engine.PodID]bool
}

// cannotStart returns the gangs that do not start as planned, in their order.
func (rd *Reading) cannotStart(plan *engine.Plan) (out []shortGang) {
	if rd.Gangs == nil || len(plan.Unplaced) == 0 {
		return nil
	}
	unplaced := make(map[engine.PodID]bool, len(plan.Unplaced))
	for _, u := range plan.Unplaced {
		unplaced[u.Pod] = true
	}
	for _, g := range rd.Gangs.List {
		if !g.Asks() || rd.Pods.Held(g.Waiting[0]) {
			continue
		}
		short := shortGang{g, map[engine.PodID]bool{}}
		for _, pod := range g.Waiting {
			if id := kube.PodID(pod); unplaced[id] {
				short.left[id] = true
			}
		}
		if len(short.left) > 0 && !g.Suffices(len(g.Waiting)-len(short.left)) {
			out = append(out, short)
		}
	}
	return out
}

// firstAndAlike returns the first gang, and each later one that lacks as many pods of the same kind or more, because it cannot start either.
func (rd *Reading) firstAndAlike(short []shortGang) (out []shortGang) {
	first, needs := rd.kindOf(short[0]), short[0].Missing()
	for i, g := range short {
		if i == 0 || first != (podKind{}) && rd.kindOf(g) == first && g.Missing() >= needs {
			out = append(out, g)
		}
	}
	return out
}

// podKind holds the constraints and requests of pods.
type podKind struct {
	constraints *constraints.PodConstraints
	requests    *inventory.RequestClass
}

// kindOf returns the kind of all waiting pods of the gang; the zero value if they differ.
func (rd *Reading) kindOf(g shortGang) (kind podKind) {
	for i, pod := range g.Waiting {
		info := rd.Pods.Cache.InfoOf(pod)
		k := podKind{rd.Constraints.OfInfo(info), rd.Pods.Cache.RequestsFor(info)}
		if i > 0 && k != kind {
			return podKind{}
		}
		kind = k
	}
	return kind
}

// refusals returns the gang's waiting pods, each with two reasons: the number of the gang's pods with a place, and the reason of the first pod
// without a place.
func (g *shortGang) refusals(plan *engine.Plan) []engine.Unplaced {
	found := len(g.Running) + len(g.Waiting) - len(g.left)
	reasons := []engine.Reason{{Code: engine.GangIncomplete, Key: g.Name(), Need: strconv.Itoa(g.Group.MinCount()), Have: strconv.Itoa(found)}}
	if i := slices.IndexFunc(plan.Unplaced, func(u engine.Unplaced) bool { return g.left[u.Pod] }); i >= 0 {
		reasons = append(reasons, plan.Unplaced[i].Reasons...)
	}
	out := make([]engine.Unplaced, 0, len(g.Waiting))
	for _, pod := range g.Waiting {
		out = append(out, engine.Unplaced{Pod: kube.PodID(pod), Reasons: reasons})
	}
	return out
}

// withoutGang reports whether a pod without a node gets no place because the rest of its gang is missing: some have no place, or kube-scheduler waits
// until more of them exist.
func (rd *Reading) withoutGang(pod *corev1.Pod) bool {
	g := rd.Gangs.Of(pod)
	if g == nil && kube.IsUntried(pod) && rd.Gangs.Lacks(pod) {
		return true
	}
	if g == nil || g.Asks() {
		return rd.Pods.Held(pod)
	}
	if kube.IsPending(pod) {
		rd.refused = append(rd.refused, engine.Unplaced{Pod: kube.PodID(pod), Reasons: []engine.Reason{g.TooSmall()}})
	}
	return true
}

// gangsOf returns the names of the gangs of a new machine's pods.
func (an *answer) gangsOf(m *packing.Machine) (names []string) {
	for _, share := range m.Pods {
		if g := an.Classes[share.Class].gang; g != nil && !slices.Contains(names, g.Name()) {
			names = append(names, g.Name())
		}
	}
	slices.Sort(names)
	return names
}

// rankOf orders pods if there is too little room: by priority, then pods that start alone, then gang by gang, because one gang should have places for
// all its pods before the next gang gets any.
func (rd *Reading) rankOf(g *gang.Gang, priority int32) int {
	if rd.Gangs == nil {
		return int(priority)
	}
	n := len(rd.Gangs.List)
	if g == nil {
		return int(priority)*(n+1) + n
	}
	return int(g.Priority())*(n+1) + n - 1 - g.Order
}
