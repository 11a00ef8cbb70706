package lifecycle

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/kube"
)

// A refreshed snapshot that was written or edited by hand shows the changes that a controller would soon make.
func TestASnapshotIsRefreshed(t *testing.T) {
	t.Parallel()
	class := engine.Class{Ref: *enginetest.LifeClaim().Spec.NodeClassRef, InstanceTypes: []engine.InstanceType{{Name: "small", Offerings: []engine.Offering{{}}}}, Traits: []engine.Trait{{Key: engine.ImageTrait, Accepts: []string{"new"}, Reason: "AMIDrift"}}}
	hashed := func(hash string) func(*v1.NodeClaim, *v1.NodePool) {
		return func(c *v1.NodeClaim, _ *v1.NodePool) {
			c.Annotations = map[string]string{v1.NodePoolHashAnnotationKey: hash, v1.NodePoolHashVersionAnnotationKey: v1.HashVersion}
		}
	}
	written := func(reason string) func(*v1.NodeClaim, *v1.NodePool) {
		return func(c *v1.NodeClaim, _ *v1.NodePool) {
			kube.SetCondition(c, v1.ConditionDrifted, metav1.ConditionTrue, reason, "", enginetest.LifeStart)
		}
	}
	require := func(_ *v1.NodeClaim, p *v1.NodePool) {
		p.Spec.Template.Spec.Requirements = []v1.Requirement{{Key: "team", Operator: v1.In, Values: []string{"b"}}}
	}
	stale := func(_ *v1.NodeClaim, p *v1.NodePool) {
		p.Annotations = map[string]string{v1.NodePoolHashAnnotationKey: "old", v1.NodePoolHashVersionAnnotationKey: v1.HashVersion}
	}
	poolOfClass := func() *v1.NodePool {
		pool := enginetest.LifePool(0)
		pool.Spec.Template.Spec.NodeClassRef = &class.Ref
		return pool
	}
	now := poolOfClass().Hash()
	type change = func(*v1.NodeClaim, *v1.NodePool)
	for name, test := range map[string]struct {
		changes []change
		drifted string
		over    string
	}{
		"nothing has changed":                     {[]change{hashed(now)}, "absent", ""},
		"a requirement that the machine lacks":    {[]change{require}, "True RequirementsDrifted", ""},
		"a requirement, before the launch":        {[]change{require, func(c *v1.NodeClaim, _ *v1.NodePool) { c.Status.ProviderID = "" }}, "absent", ""},
		"the template":                            {[]change{hashed("old")}, "True NodePoolDrifted", ""},
		"the template, the pool's stamp is stale": {[]change{hashed("old"), stale}, "True NodePoolDrifted", ""},
		"the template is what it was":             {[]change{hashed(now), written(PoolDrifted)}, "absent", ""},
		"a template of which the claim says none": {[]change{written(PoolDrifted)}, "True NodePoolDrifted", ""},
		"requirements are what they were":         {[]change{written(RequirementsDrifted)}, "absent", ""},
		"the image":                               {[]change{func(c *v1.NodeClaim, _ *v1.NodePool) { c.Status.ImageID = "old" }}, "True AMIDrift", ""},
		"what is not known here":                  {[]change{written("SubnetDrift")}, "True SubnetDrift", ""},
		"a type that the cloud has given up":      {[]change{func(c *v1.NodeClaim, _ *v1.NodePool) { c.Labels["node.kubernetes.io/instance-type"] = "gone" }}, "True InstanceTypeNotFound", ""},
		"an age that is allowed":                  {[]change{func(c *v1.NodeClaim, _ *v1.NodePool) { c.Spec.ExpireAfter = v1.DurationOf(3 * time.Hour) }}, "absent", ""},
		"an age that is over":                     {[]change{func(c *v1.NodeClaim, _ *v1.NodePool) { c.Spec.ExpireAfter = v1.DurationOf(2 * time.Hour) }}, "absent", "it expired at"},
		"an age that nobody knows":                {[]change{func(c *v1.NodeClaim, _ *v1.NodePool) { c.CreationTimestamp = metav1.Time{} }, func(c *v1.NodeClaim, _ *v1.NodePool) { c.Spec.ExpireAfter = v1.DurationOf(2 * time.Hour) }}, "absent", ""},
		"a pool that is deleted with its machines": {[]change{func(_ *v1.NodeClaim, p *v1.NodePool) {
			p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: enginetest.LifeStart}, []string{"foregroundDeletion"}
		}}, "absent", "its NodePool general is"},
		"a pool that somebody holds": {[]change{func(_ *v1.NodeClaim, p *v1.NodePool) {
			p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: enginetest.LifeStart}, []string{"example.com/wait"}
		}}, "absent", ""},
		"a pool that is gone": {[]change{func(c *v1.NodeClaim, p *v1.NodePool) {
			p.Name = "other"
			c.OwnerReferences = []metav1.OwnerReference{{Kind: "NodePool", Name: "general"}}
		}}, "absent", "its NodePool general is gone"},
		"a pool that is not in the files": {[]change{func(_ *v1.NodeClaim, p *v1.NodePool) { p.Name = "other" }}, "absent", ""},
	} {
		claim, pool := enginetest.LifeClaim(), poolOfClass()
		claim.Status.ProviderID, claim.Labels["node.kubernetes.io/instance-type"] = "kwok://a", "small"
		for _, c := range test.changes {
			c(claim, pool)
		}
		s := &engine.Snapshot{Now: enginetest.LifeStart.Add(2 * time.Hour), NodePools: []*v1.NodePool{pool}, NodeClaims: []*v1.NodeClaim{claim}, Classes: []engine.Class{class}}
		before := enginetest.ConditionText(claim, v1.ConditionDrifted)
		fresh, notes := Refresh(s)
		if got := enginetest.ConditionText(fresh.NodeClaims[0], v1.ConditionDrifted); got != test.drifted {
			t.Errorf("%s: drifted is %s, want %s", name, got, test.drifted)
		}
		note := strings.Join(notes, "; ")
		if over := fresh.NodeClaims[0].DeletionTimestamp != nil; over != (test.over != "") || !strings.Contains(note, test.over) || over == (note == "") {
			t.Errorf("%s: it is being deleted: %v (%q), want %q", name, over, note, test.over)
		}
		if enginetest.ConditionText(claim, v1.ConditionDrifted) != before || claim.DeletionTimestamp != nil {
			t.Errorf("%s: the snapshot itself was changed", name)
		}
	}
	// A built-in list may lack a type that the cloud has.
	claim, pool := enginetest.LifeClaim(), poolOfClass()
	claim.Status.ProviderID, claim.Labels["node.kubernetes.io/instance-type"] = "kwok://a", "rare"
	class.Assumed = true
	fresh, _ := Refresh(&engine.Snapshot{Now: enginetest.LifeStart.Add(2 * time.Hour), NodePools: []*v1.NodePool{pool}, NodeClaims: []*v1.NodeClaim{claim}, Classes: []engine.Class{class}})
	if got := enginetest.ConditionText(fresh.NodeClaims[0], v1.ConditionDrifted); got != "absent" {
		t.Errorf("a type that a built-in list lacks: drifted is %s", got)
	}
}
