package scheduler

import (
	"slices"

	"tenon.sh/engine/capacity"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// landingRoll is what the pods of a node mean to a replay, worked out once as long as they stay the same.
type landingRoll struct {
	requested, scored kube.Usage
	needs             []landingNeed
	total             capacity.Vector // of the needs, in the order of resources that totalFor names
	totalFor          string
	kinds             []landingKind
	daemons           []string // DaemonSets that have a pod here
	// apart are the pods that every replay reads for itself: they have volumes or host ports, or ask something of others.
	// They count in daemons only.
	apart []*inventory.PodFacts
}

// landingNeed is so many pods that request the same.
type landingNeed struct {
	need *inventory.PodNeed
	n    int64
}

// landingKind is so many pods that count alike.
type landingKind struct {
	kind   *inventory.Alike
	ending bool
	n      int32
}

// LandingOf is what the pods of the roll mean to a replay.
func LandingOf(m *inventory.Memo, r *inventory.Roll) *landingRoll {
	if known, ok := r.Replay.(*landingRoll); ok {
		return known
	}
	out := &landingRoll{daemons: r.DaemonKeys()}
	for _, f := range r.Facts {
		if f.Apart {
			out.apart = append(out.apart, f)
			continue
		}
		need := m.NeedFor(f)
		requested := need.UsageOf()
		out.requested, out.scored = out.requested.Plus(requested), out.scored.Plus(scoredOf(f, requested))
		i := slices.IndexFunc(out.needs, func(x landingNeed) bool { return x.need == need })
		if i < 0 {
			i = len(out.needs)
			out.needs = append(out.needs, landingNeed{need: need})
		}
		out.needs[i].n++
		i = slices.IndexFunc(out.kinds, func(x landingKind) bool { return x.kind == f.Kind && x.ending == f.Ending })
		if i < 0 {
			i = len(out.kinds)
			out.kinds = append(out.kinds, landingKind{kind: f.Kind, ending: f.Ending})
		}
		out.kinds[i].n++
	}
	r.Replay = out
	return out
}

// bindRoll binds all pods of the roll to node i but those that are apart.
func (w *landingWorld) bindRoll(r *landingRoll, i int) {
	if r.totalFor != w.namesText {
		r.total, r.totalFor = make(capacity.Vector, w.names.Len()), w.namesText
		for _, x := range r.needs {
			r.total.Add(w.measuredOf(x.need).need, x.n)
		}
	}
	w.room.take(i, r.total, 1)
	w.loads[i].add(r.requested, r.scored)
	if len(w.extraNames) > 0 {
		for _, x := range r.needs {
			w.addExtras(i, x.need, x.n)
		}
	}
	if len(w.reader.matchers) == 0 {
		return
	}
	for _, x := range r.kinds {
		for _, t := range w.talliesOfKind(x.kind, x.ending) {
			t.add(i, x.n)
		}
	}
}

// kindTallies is in which tallies pods count that are alike: those that stay, and those that are ending.
type kindTallies [2][]*tally

// talliesOfKind lists the tallies in which such pods count that ask nothing of others.
func (w *landingWorld) talliesOfKind(k *inventory.Alike, ending bool) []*tally {
	at := w.ofKind[k]
	if at == nil {
		labels := w.labelKind(k.Sample.Namespace, k.Sample.Labels)
		at = &kindTallies{w.talliesOf(countedKey{labels: labels}), w.talliesOf(countedKey{labels: labels, ending: true})}
		w.ofKind[k] = at
	}
	if ending {
		return at[1]
	}
	return at[0]
}
