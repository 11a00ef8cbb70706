package lifecycle

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
)

func lifeLabels(labels map[string]string) func(*v1.NodeClaim) {
	return func(c *v1.NodeClaim) { c.Labels = labels }
}

func TestRequirementsDrift(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		labels  map[string]string
		require v1.Requirement
		want    bool
	}{
		"another capacity type":             {map[string]string{v1.CapacityTypeLabelKey: "spot"}, v1.Requirement{Key: v1.CapacityTypeLabelKey, Operator: v1.In, Values: []string{"on-demand"}}, true},
		"a label that the claim lacks":      {nil, v1.Requirement{Key: "team", Operator: v1.In, Values: []string{"a"}}, true},
		"fewer values":                      {map[string]string{"team": "b"}, v1.Requirement{Key: "team", Operator: v1.In, Values: []string{"a"}}, true},
		"more values":                       {map[string]string{"team": "b"}, v1.Requirement{Key: "team", Operator: v1.In, Values: []string{"a", "b", "c"}}, false},
		"exists":                            {map[string]string{"team": "b"}, v1.Requirement{Key: "team", Operator: v1.Exists}, false},
		"does not exist":                    {map[string]string{"team": "b"}, v1.Requirement{Key: "team", Operator: v1.DoesNotExist}, true},
		"does not exist, and does not":      {nil, v1.Requirement{Key: "team", Operator: v1.DoesNotExist}, false},
		"greater than more":                 {map[string]string{"gen": "5"}, v1.Requirement{Key: "gen", Operator: v1.Gt, Values: []string{"10"}}, true},
		"less than less":                    {map[string]string{"gen": "2"}, v1.Requirement{Key: "gen", Operator: v1.Lt, Values: []string{"1"}}, true},
		"an old name of the label":          {map[string]string{corev1.LabelTopologyZone: "a"}, v1.Requirement{Key: corev1.LabelFailureDomainBetaZone, Operator: v1.In, Values: []string{"a"}}, false},
		"what the instance type says of it": {map[string]string{corev1.LabelInstanceTypeStable: "large"}, v1.Requirement{Key: "family", Operator: v1.In, Values: []string{"m"}}, false},
		"other systems only":                {map[string]string{corev1.LabelOSStable: "windows"}, v1.Requirement{Key: corev1.LabelOSStable, Operator: v1.In, Values: []string{"linux"}}, true},
	} {
		pool := enginetest.LifePool(0)
		pool.Spec.Template.Spec.Requirements = []v1.Requirement{c.require}
		class := &engine.Class{InstanceTypes: []engine.InstanceType{{Name: "large", Labels: map[string][]string{"family": {"m"}}}}}
		reason, _ := DriftOf(enginetest.LifeClaim(lifeLabels(c.labels)), pool, class, enginetest.LifeStart)
		if (reason == RequirementsDrifted) != c.want {
			t.Errorf("%s: %q, want drift %t", name, reason, c.want)
		}
	}
}

func TestTheTemplatesFingerprintDrifts(t *testing.T) {
	t.Parallel()
	stamp := func(o metav1.Object, hash, version string) {
		annotations := map[string]string{}
		if hash != "" {
			annotations[v1.NodePoolHashAnnotationKey] = hash
		}
		if version != "" {
			annotations[v1.NodePoolHashVersionAnnotationKey] = version
		}
		o.SetAnnotations(annotations)
	}
	for name, c := range map[string]struct {
		claim, claimVersion, pool, poolVersion string
		want                                   bool
	}{
		"the same":                   {"1", "v3", "1", "v3", false},
		"another":                    {"1", "v3", "2", "v3", true},
		"another version":            {"1", "v2", "2", "v3", false},
		"a pool without one":         {"1", "v3", "", "", false},
		"a claim without one":        {"", "", "2", "v3", false},
		"a claim without a version":  {"1", "", "2", "v3", false},
		"neither says which version": {"1", "", "2", "", false},
	} {
		claim, pool := enginetest.LifeClaim(), enginetest.LifePool(0)
		stamp(claim, c.claim, c.claimVersion)
		stamp(pool, c.pool, c.poolVersion)
		if reason, _ := DriftOf(claim, pool, nil, enginetest.LifeStart); (reason == PoolDrifted) != c.want {
			t.Errorf("%s: %q", name, reason)
		}
	}
}

// Whatever changes a pool's template in a way that machines must follow changes its fingerprint, and what does not, does not.
func TestWhichChangesOfAPoolDrift(t *testing.T) {
	t.Parallel()
	drifts := map[string]func(*v1.NodePool){
		"labels":      func(p *v1.NodePool) { p.Spec.Template.Labels = map[string]string{"a": "b"} },
		"annotations": func(p *v1.NodePool) { p.Spec.Template.Annotations = map[string]string{"a": "b"} },
		"taints":      func(p *v1.NodePool) { p.Spec.Template.Spec.Taints = []v1.Taint{{Key: "a", Effect: "NoSchedule"}} },
		"startup taints": func(p *v1.NodePool) {
			p.Spec.Template.Spec.StartupTaints = []v1.Taint{{Key: "a", Effect: "NoSchedule"}}
		},
		"node class":   func(p *v1.NodePool) { p.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Name: "other"} },
		"expire after": func(p *v1.NodePool) { p.Spec.Template.Spec.ExpireAfter = v1.DurationOf(time.Hour) },
		"grace period": func(p *v1.NodePool) {
			p.Spec.Template.Spec.TerminationGracePeriod = &metav1.Duration{Duration: time.Hour}
		},
	}
	stays := map[string]func(*v1.NodePool){
		"requirements": func(p *v1.NodePool) {
			p.Spec.Template.Spec.Requirements = []v1.Requirement{{Key: "a", Operator: v1.Exists}}
		},
		"weight":     func(p *v1.NodePool) { p.Spec.Weight = new(int32) },
		"limits":     func(p *v1.NodePool) { p.Spec.Limits = v1.Limits{} },
		"disruption": func(p *v1.NodePool) { p.Spec.Disruption.Budgets = []v1.Budget{{Nodes: "1"}} },
		"replicas":   func(p *v1.NodePool) { p.Spec.Replicas = new(int64) },
		"annotations of the pool itself": func(p *v1.NodePool) {
			p.Annotations = map[string]string{v1.PauseAnnotationKey: "true"}
		},
	}
	base := func() *v1.NodePool {
		pool := enginetest.LifePool(0)
		pool.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Name: "default"}
		return pool
	}
	for name, change := range drifts {
		pool := base()
		change(pool)
		if pool.Hash() == base().Hash() {
			t.Errorf("a change of %s drifts nothing", name)
		}
	}
	for name, change := range stays {
		pool := base()
		change(pool)
		if pool.Hash() != base().Hash() {
			t.Errorf("a change of %s drifts", name)
		}
	}
}

func TestInstanceTypesThatAreGoneDrift(t *testing.T) {
	t.Parallel()
	offers := func(kinds ...string) *engine.Class {
		x := engine.InstanceType{Name: "large"}
		for _, k := range kinds {
			x.Offerings = append(x.Offerings, engine.Offering{Zone: "a", CapacityType: k, SoldOut: true, Price: 1})
		}
		return &engine.Class{InstanceTypes: []engine.InstanceType{x}}
	}
	of := func(kind, zone, capacity string) map[string]string {
		return map[string]string{corev1.LabelInstanceTypeStable: kind, corev1.LabelTopologyZone: zone, v1.CapacityTypeLabelKey: capacity}
	}
	for name, c := range map[string]struct {
		labels map[string]string
		class  *engine.Class
		age    time.Duration
		want   bool
	}{
		"sold out is not gone":                  {of("large", "a", "spot"), offers("spot"), 2 * time.Hour, false},
		"no label":                              {nil, offers("spot"), 2 * time.Hour, true},
		"no such type":                          {of("tiny", "a", "spot"), offers("spot"), 2 * time.Hour, true},
		"no offerings":                          {of("large", "a", "spot"), offers(), 2 * time.Hour, true},
		"not as it was bought":                  {of("large", "a", "on-demand"), offers("spot"), 2 * time.Hour, true},
		"not where it was bought":               {of("large", "b", "spot"), offers("spot"), 2 * time.Hour, true},
		"too young":                             {of("tiny", "a", "spot"), offers("spot"), 30 * time.Minute, false},
		"a class that is not known":             {of("tiny", "a", "spot"), nil, 2 * time.Hour, false},
		"a catalog that is empty":               {of("tiny", "a", "spot"), &engine.Class{}, 2 * time.Hour, false},
		"a class in trouble without a catalog":  {of("tiny", "a", "spot"), &engine.Class{Problem: "denied"}, 2 * time.Hour, false},
		"reserved, and there is both":           {of("large", "a", "reserved"), offers("reserved", "on-demand"), 2 * time.Hour, false},
		"reserved, and there are reservations":  {of("large", "a", "reserved"), offers("reserved"), 2 * time.Hour, false},
		"reserved, and it is sold on demand":    {of("large", "a", "reserved"), offers("on-demand"), 2 * time.Hour, false},
		"reserved, and it is sold as spot only": {of("large", "a", "reserved"), offers("spot"), 2 * time.Hour, true},
		"reserved, and it is not sold at all":   {of("large", "a", "reserved"), offers(), 2 * time.Hour, true},
	} {
		reason, message := DriftOf(enginetest.LifeClaim(lifeLabels(c.labels)), enginetest.LifePool(0), c.class, enginetest.LifeStart.Add(c.age))
		if (reason == InstanceTypeNotFound) != c.want {
			t.Errorf("%s: %q (%s)", name, reason, message)
		}
	}
}

func TestTraitsDrift(t *testing.T) {
	t.Parallel()
	image := engine.Trait{Key: engine.ImageTrait, Accepts: []string{"image-2", "image-3"}, Reason: "ImageDrift"}
	for name, c := range map[string]struct {
		trait engine.Trait
		want  string
	}{
		"an image that is not chosen any more":    {image, "ImageDrift"},
		"an image that is":                        {engine.Trait{Key: engine.ImageTrait, Accepts: []string{"image-1"}}, ""},
		"an annotation":                           {engine.Trait{Key: "example.com/subnet", Accepts: []string{"s-2"}, Reason: "SubnetDrift"}, "SubnetDrift"},
		"a label":                                 {engine.Trait{Key: "zone", Accepts: []string{"b"}}, "NodeClassDrift"},
		"something that the claim does not say":   {engine.Trait{Key: "example.com/other", Accepts: []string{"x"}}, ""},
		"a class that has not said what it wants": {engine.Trait{Key: engine.ImageTrait}, ""},
	} {
		claim := enginetest.LifeClaim(enginetest.LifeLaunched)
		claim.Annotations = map[string]string{"example.com/subnet": "s-1"}
		if reason, _ := DriftOf(claim, enginetest.LifePool(0), &engine.Class{Traits: []engine.Trait{c.trait}}, enginetest.LifeStart); reason != c.want {
			t.Errorf("%s: %q, want %q", name, reason, c.want)
		}
	}
}

func TestTheConditionDrifted(t *testing.T) {
	t.Parallel()
	hashed := func(c *v1.NodeClaim) {
		c.Annotations = map[string]string{v1.NodePoolHashAnnotationKey: "old", v1.NodePoolHashVersionAnnotationKey: v1.HashVersion}
	}
	changed, narrowed := enginetest.LifePool(0), enginetest.LifePool(0)
	for _, pool := range []*v1.NodePool{changed, narrowed} {
		pool.Annotations = map[string]string{v1.NodePoolHashAnnotationKey: "new", v1.NodePoolHashVersionAnnotationKey: v1.HashVersion}
		pool.Spec.Template.Spec.Requirements = []v1.Requirement{{Key: "team", Operator: v1.In, Values: []string{"other"}}}
	}
	class := &engine.Class{Traits: []engine.Trait{{Key: engine.ImageTrait, Accepts: []string{"image-2"}, Reason: "ImageDrift"}}}
	was := func(reason string) func(*v1.NodeClaim) {
		return func(c *v1.NodeClaim) {
			v1.SetCondition(c, v1.ConditionDrifted, metav1.ConditionTrue, reason, "", enginetest.LifeStart)
		}
	}
	for name, c := range map[string]struct {
		claim *v1.NodeClaim
		pool  *v1.NodePool
		class *engine.Class
		want  string
	}{
		"the template comes first":               {enginetest.LifeClaim(enginetest.LifeRunning, hashed), changed, class, "True NodePoolDrifted"},
		"then requirements":                      {enginetest.LifeClaim(enginetest.LifeRunning), narrowed, class, "True RequirementsDrifted"},
		"then what the class wants":              {enginetest.LifeClaim(enginetest.LifeRunning), enginetest.LifePool(0), class, "True ImageDrift"},
		"without a pool nothing changes":         {enginetest.LifeClaim(enginetest.LifeRunning, was("NodePoolDrifted")), nil, class, "True NodePoolDrifted"},
		"what has not drifted any more loses it": {enginetest.LifeClaim(enginetest.LifeRunning, was("NodePoolDrifted")), enginetest.LifePool(0), nil, "absent"},
		"not if nobody can say":                  {enginetest.LifeClaim(enginetest.LifeRunning, was("ImageDrift")), enginetest.LifePool(0), nil, "True ImageDrift"},
		"nothing has drifted":                    {enginetest.LifeClaim(enginetest.LifeRunning), enginetest.LifePool(0), nil, "absent"},
	} {
		claim := c.claim
		step := Next(Life{Now: enginetest.LifeStart.Add(time.Minute), Claim: claim, Nodes: []*corev1.Node{enginetest.LifeNode(enginetest.LifeOpen)}, Pool: c.pool, Class: c.class})
		if step.Claim != nil {
			claim = step.Claim
		}
		if got := enginetest.ConditionText(claim, v1.ConditionDrifted); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestAClaimWithoutAMachineHasNotDrifted(t *testing.T) {
	t.Parallel()
	pool := enginetest.LifePool(0)
	pool.Spec.Template.Spec.Requirements = []v1.Requirement{{Key: "team", Operator: v1.In, Values: []string{"other"}}}
	claim := enginetest.LifeClaim()
	v1.SetCondition(claim, v1.ConditionDrifted, metav1.ConditionTrue, "ImageDrift", "", enginetest.LifeStart)
	observeDrift(Life{Now: enginetest.LifeStart, Claim: claim, Pool: pool}, claim, &Step{})
	if got := enginetest.ConditionText(claim, v1.ConditionDrifted); got != "absent" {
		t.Errorf("Drifted: %s", got)
	}
}

func TestDriftAndQuietAreKeptTogetherExceptInStaticPools(t *testing.T) {
	t.Parallel()
	static := enginetest.LifePool(0)
	static.Spec.Replicas = new(int64)
	for pool, want := range map[*v1.NodePool]string{enginetest.LifePool(0): "True", static: "absent"} {
		pool.Spec.Template.Spec.Requirements = []v1.Requirement{{Key: "team", Operator: v1.In, Values: []string{"other"}}}
		step := Next(Life{Now: enginetest.LifeStart.Add(time.Minute), Claim: enginetest.LifeClaim(enginetest.LifeRunning), Nodes: []*corev1.Node{enginetest.LifeNode(enginetest.LifeOpen)}, Pool: pool})
		if got := enginetest.ConditionText(step.Claim, v1.ConditionDrifted); got != "True RequirementsDrifted" {
			t.Errorf("Drifted: %s", got)
		}
		if got := enginetest.ConditionText(step.Claim, v1.ConditionConsolidatable); got != want {
			t.Errorf("Consolidatable: %s, want %s", got, want)
		}
	}
}
