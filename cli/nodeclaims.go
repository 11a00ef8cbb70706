package cli

import (
	"context"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/controller/nodeclaim"
	"tenon.sh/provider"
)

const (
	// A machine counts as left behind when it is half a minute old: two minutes after a controller was killed, there is none.
	collectEvery = time.Minute
	// collectEveryAtTheEnd is the same while an installation is removed, and somebody waits for it.
	collectEveryAtTheEnd = 10 * time.Second
	// claimsAtOnce bounds the memory that a burst of launches takes; the API server is the slower part anyway.
	claimsAtOnce = 24
	// launchesAtOnce is the same for a cloud that starts many machines by one call, and takes seconds for it.
	launchesAtOnce = 200
)

// addNodeClaims adds the controllers of claims and of nodes that have none, and the removal of what is left behind.
func (p *parts) addNodeClaims(cloud provider.Provider) error {
	config := nodeclaim.Config{
		Cluster: p.cluster, Recorder: p.recorder, Metrics: p.lasting.metrics,
		Options: p.opt.engineOptions(),
		AtOnce:  p.claimsAtOnce(),
	}
	every := collectEvery
	if p.onlyEnds {
		every = collectEveryAtTheEnd
	} else {
		config.Adopter, _ = cloud.(provider.Adopter)
		config.Outcome = func(_ context.Context, claim *v1.NodeClaim, registered bool) { p.registered(claim, registered) }
	}
	claims := nodeclaim.New(config)
	p.loop("nodeclaim.garbagecollection", claims.Collect, time.Second, time.Second, every)
	return claims.Register(p.mgr)
}

// registered passes on whether a claim's machine joined the cluster. If it was not even launched, the claim says why.
func (p *parts) registered(claim *v1.NodeClaim, ok bool) {
	reason, message := "", ""
	if launched := v1.GetCondition(claim, v1.ConditionLaunched); !ok && launched != nil && !v1.IsTrue(claim, v1.ConditionLaunched) {
		reason, message = launched.Reason, launched.Message
	}
	for _, owner := range claim.OwnerReferences {
		if owner.Kind == "NodePool" {
			p.health.Registered(owner.UID, ok, reason, message)
		}
	}
}

func (p *parts) claimsAtOnce() int {
	if p.opt.CloudProvider != cloudKWOK {
		return launchesAtOnce
	}
	return claimsAtOnce
}
