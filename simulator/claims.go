package simulator

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// claims changes the NodeClaims of the cluster.
type claims struct {
	cfg       *Config
	agenda    *agenda
	pending   *pending
	timetable *timetable
	meter     *meter
	cluster   *cluster
	// By claim: why it is deleted, the time of the next look at it, since when its node could open, and the price of the cheapest offering that its
	// launch lists.
	causes map[string]string
	wakes  map[string]time.Time
	ripe   map[string]time.Time
	listed map[string]float64
}

func newClaims(cfg *Config, a *agenda, p *pending, t *timetable, m *meter, c *cluster) *claims {
	return &claims{
		cfg: cfg, agenda: a, pending: p, timetable: t, meter: m, cluster: c,
		causes: map[string]string{}, wakes: map[string]time.Time{}, ripe: map[string]time.Time{}, listed: map[string]float64{},
	}
}

// add creates the NodeClaim of a launch, as the controllers do.
func (x *claims) add(pool *v1.NodePool, launch engine.Launch, annotations map[string]string) string {
	claim := kube.NewClaim(pool, launch)
	serial := x.cluster.nextID()
	claim.Name = fmt.Sprintf("%s-%d", pool.Name, serial)
	claim.GenerateName, claim.UID = "", types.UID("claim/"+claim.Name)
	claim.Generation, claim.ResourceVersion = 1, strconv.Itoa(serial)
	claim.CreationTimestamp = metav1.NewTime(x.agenda.now)
	for key, value := range annotations {
		claim.Annotations[key] = value
	}
	v1.InitializeConditions(claim, x.agenda.now)
	if x.cfg.Policy != Baseline { // the plans of Baseline have no real prices
		x.listed[claim.Name] = launch.Price
	}
	x.set(claim)
	x.awaitExpiry(claim)
	return claim.Name
}

// awaitExpiry schedules a look at the nodes for the claim's soft expiry, because nothing else may change then.
func (x *claims) awaitExpiry(claim *v1.NodeClaim) {
	if at, ok := kube.SoftExpiry(claim); ok {
		x.agenda.at(at, x.cluster.noteChange)
	}
}

// set replaces the stored claim. It removes a deleted claim without finalizers.
func (x *claims) set(claim *v1.NodeClaim) {
	claim.ResourceVersion = strconv.Itoa(x.cluster.nextID())
	x.pending.toStep(claim.Name)
	x.pending.orders = true
	x.cluster.noteChange()
	x.meter.ledger.follow(claim, x.causeOf(claim.Name))
	if claim.DeletionTimestamp != nil && len(claim.Finalizers) == 0 {
		x.cluster.removeClaim(claim)
		if s := x.cluster.seatOf(claim); s != nil { // other finalizers may hold its node
			x.pending.claims.add(s.node.Name)
		}
		delete(x.ripe, claim.Name)
		delete(x.causes, claim.Name)
		delete(x.listed, claim.Name)
		delete(x.wakes, claim.Name)
		if x.timetable.unplaced { // a limit may have room again
			x.timetable.wantMachines()
		}
		return
	}
	x.cluster.putClaim(claim)
}

// delete sets the deletion timestamp of a claim.
func (x *claims) delete(name, cause string) {
	claim, ok := x.cluster.claims.get(name)
	if !ok || claim.DeletionTimestamp != nil {
		return
	}
	if cause != "" {
		x.causes[name] = cause
		x.meter.Removed[cause]++
	}
	claim = claim.DeepCopy()
	claim.DeletionTimestamp = new(metav1.NewTime(x.agenda.now))
	x.set(claim)
	x.timetable.wantMachines()
}

// release removes Tenon's finalizer from a claim.
func (x *claims) release(name string) {
	claim, _ := x.cluster.claims.get(name)
	claim = claim.DeepCopy()
	claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(f string) bool { return f == v1.TerminationFinalizer })
	x.set(claim)
}

// takeListed returns the price of the cheapest offering that the claim's launch listed, once; 0 if it is unknown.
func (x *claims) takeListed(name string) float64 {
	price := x.listed[name]
	delete(x.listed, name)
	return price
}

// ripeSince returns since when the claim's node could open: since now if it could not before.
func (x *claims) ripeSince(name string) time.Time {
	since, known := x.ripe[name]
	if !known {
		since = x.agenda.now
		x.ripe[name] = since
	}
	return since
}

// opened notes that the claim's node opens.
func (x *claims) opened(name string) { delete(x.ripe, name) }

func (x *claims) isRipe(name string) bool {
	_, ripe := x.ripe[name]
	return ripe
}

// causeOf returns the cause for which a claim was deleted, or "lost" if the world deleted none.
func (x *claims) causeOf(claim string) string {
	if cause := x.causes[claim]; cause != "" {
		return cause
	}
	return "lost"
}

// wake schedules a look at a claim after a time; 0 means never. If a sooner look is scheduled already, nothing changes.
func (x *claims) wake(name string, after time.Duration) {
	if after <= 0 {
		return
	}
	at := x.agenda.now.Add(after)
	if known, ok := x.wakes[name]; ok && known.After(x.agenda.now) && !at.Before(known) {
		return
	}
	x.wakes[name] = at
	x.agenda.at(at, func() {
		if x.wakes[name].Equal(at) {
			delete(x.wakes, name)
			x.pending.claims.add(name)
		}
	})
}
