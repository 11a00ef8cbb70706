package doctor

import (
	"cmp"
	"fmt"
	"slices"

	"tenon.sh/engine"
	"tenon.sh/provider"
)

// othersServe are the reasons of pods that another component starts, or that get a machine later.
var othersServe = []engine.Code{
	engine.LeftToFargate, engine.ServedElsewhere, engine.LaunchDelayed, engine.CheaperSoldOut, engine.ProvisioningRequested, engine.GangTooSmall, engine.NotOnManagedNodes,
}

// pods finds waiting pods that neither a node nor a new machine can run. Pods with the same reasons are one finding.
func pods(p *Picture) []provider.Finding {
	l := list{check: "pod"}
	if p.Snapshot == nil || len(p.Snapshot.NodePools) == 0 {
		return nil
	}
	waiting := map[string][]string{} // by reason
	for _, u := range p.plan.Unplaced {
		served := slices.ContainsFunc(u.Reasons, func(r engine.Reason) bool { return slices.Contains(othersServe, r.Code) })
		if served {
			continue
		}
		why := engine.Sentence(u.Reasons)
		waiting[why] = append(waiting[why], u.Pod.String())
	}
	reasons := make([]string, 0, len(waiting))
	for why := range waiting {
		reasons = append(reasons, why)
	}
	slices.SortFunc(reasons, func(a, b string) int { return cmp.Or(cmp.Compare(waiting[a][0], waiting[b][0]), cmp.Compare(a, b)) })
	for _, why := range reasons {
		l.warning("", fmt.Sprintf("nothing can run %s that wait: %s: %s", count(len(waiting[why]), "pod"), some(waiting[why], 3), why),
			"tenon explain pod "+waiting[why][0]+" says what each pool lacks")
	}
	return l.or("no pod waits that nothing can run")
}
