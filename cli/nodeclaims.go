package cli

import (
	"context"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/controller/nodeclaim"
	"tenon.sh/provider"
)

const (
	// collectEvery is the time between two garbage collections. A machine without a NodeClaim is deleted if it is more than half a minute old, so two
	// minutes after a controller was killed, no machine without a NodeClaim is left.
	collectEvery = time.Minute
	// collectEveryAtTheEnd is the same time while a user waits for the removal of an installation.
	collectEveryAtTheEnd = 10 * time.Second
	// claimsAtOnce bounds the memory for a burst of launches. The API server is the slower part anyway.
	claimsAtOnce = 24
	// launchesAtOnce is the same limit for a cloud that starts many machines by one call, which takes seconds.
	launchesAtOnce = 200
)

// addNodeClaims adds the controllers of NodeClaims and of nodes without a NodeClaim, and the garbage collection.
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

// registered reports to the pool's health whether a claim's machine joined the cluster. If the launch failed, it passes on the claim's
// reason.
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
