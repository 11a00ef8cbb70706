package simulator

// pending is the work that some event or change has left. Every part may add work. World.settle takes the work of this instant before the
// time goes on.
type pending struct {
	loads     todo[*load]  // workloads whose pods their controllers have to count
	claims    todo[string] // claims that need steps, and deleted nodes without a claim
	stepping  string       // the claim whose steps are taken now
	observed  todo[string] // claims whose nodes got or lost pods, for the next disruption pass
	orders    bool         // the disruptions in progress may continue
	pods      bool         // kube-scheduler has pods to try
	provision bool         // a provisioning plan is due
	disrupt   bool         // a disruption plan is due
}

// toStep notes that a claim needs a step, unless its steps are being taken now.
func (p *pending) toStep(name string) {
	if name != p.stepping {
		p.claims.add(name)
	}
}
