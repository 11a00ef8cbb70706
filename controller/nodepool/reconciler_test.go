package nodepool_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster/clustertest"
	"tenon.sh/controller/nodepool"
	"tenon.sh/engine"
)

var old = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

type world struct {
	*clustertest.World
	*nodepool.Reconciler
	health *nodepool.Health
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	w := &world{World: clustertest.New(t, interceptor.Funcs{}, objects...), health: nodepool.NewHealth(nil)}
	w.restart()
	return w
}

func (w *world) restart() {
	w.health = nodepool.NewHealth(nil)
	w.Reconciler = nodepool.New(nodepool.Config{Cluster: w.World.Cluster, Health: w.health})
}

func (w *world) pass() *v1.NodePool {
	w.Helper()
	w.Must(w.Reconcile(w))
	pool := &v1.NodePool{}
	w.Must(w.Client.Get(w, client.ObjectKey{Name: "general"}, pool))
	return pool
}

func bare(name string) *v1.NodePool {
	pool := clustertest.Pool(name)
	pool.Status = v1.NodePoolStatus{}
	return pool
}

func TestAPoolIsReadyOnceItIsValidAndItsClassIs(t *testing.T) {
	pool := newWorld(t, bare("general")).pass()
	for _, c := range []string{v1.ConditionValidationSucceeded, v1.ConditionNodeClassReady, v1.ConditionReady} {
		if !v1.IsTrue(pool, c) {
			t.Errorf("%s is %+v", c, v1.GetCondition(pool, c))
		}
	}
	if pool.Status.Nodes == nil || *pool.Status.Nodes != 0 || len(pool.Status.Resources) != 5 {
		t.Errorf("an empty pool has %+v", pool.Status)
	}
	if pool.Annotations[v1.NodePoolHashAnnotationKey] != pool.Hash() || pool.Annotations[v1.NodePoolHashVersionAnnotationKey] != "v3" {
		t.Errorf("annotations %v", pool.Annotations)
	}
}

func TestNodeClassReadySaysWhatIsWrongWithTheClass(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*kwokv1alpha1.KWOKNodeClass)
		class  string
		status metav1.ConditionStatus
		reason string
	}{
		"missing": {nil, "missing", metav1.ConditionFalse, "NodeClassNotFound"},
		"not looked at": {func(c *kwokv1alpha1.KWOKNodeClass) { c.Status.Conditions = nil }, "other",
			metav1.ConditionUnknown, "NodeClassReadinessUnknown"},
		"not ready": {func(c *kwokv1alpha1.KWOKNodeClass) {
			c.Status.Conditions = []metav1.Condition{{Type: v1.ConditionReady, Status: metav1.ConditionFalse, Reason: "NoImages", Message: "none found"}}
		}, "other", metav1.ConditionFalse, "NoImages"},
		"going": {func(c *kwokv1alpha1.KWOKNodeClass) {
			now := metav1.NewTime(old)
			c.DeletionTimestamp, c.Finalizers = &now, []string{"example.com/hold"}
		}, "other", metav1.ConditionFalse, "NodeClassTerminating"},
	} {
		t.Run(name, func(t *testing.T) {
			pool := bare("general")
			pool.Spec.Template.Spec.NodeClassRef.Name = c.class
			objects := []client.Object{pool}
			if c.change != nil {
				class := &kwokv1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
				c.change(class)
				objects = append(objects, class)
			}
			got := newWorld(t, objects...).pass()
			condition := v1.GetCondition(got, v1.ConditionNodeClassReady)
			if condition.Status != c.status || condition.Reason != c.reason || v1.IsTrue(got, v1.ConditionReady) {
				t.Errorf("got %+v", condition)
			}
		})
	}
}

func TestAnInvalidPoolSaysSoAndLeavesOthersAlone(t *testing.T) {
	wrong := bare("wrong")
	wrong.Spec.Template.Spec.Requirements = []v1.Requirement{{Key: v1.NodePoolLabelKey, Operator: v1.Exists}}
	w := newWorld(t, bare("general"), wrong)
	if !v1.IsTrue(w.pass(), v1.ConditionReady) {
		t.Error("the valid pool suffers")
	}
	w.Must(w.Client.Get(w, client.ObjectKeyFromObject(wrong), wrong))
	c := v1.GetCondition(wrong, v1.ConditionValidationSucceeded)
	if c.Status != metav1.ConditionFalse || c.Reason != "NodePoolValidationFailed" || c.Message == "" {
		t.Errorf("got %+v", c)
	}
}

func TestAPoolCountsItsMachines(t *testing.T) {
	pool := bare("general")
	a, nodeA := clustertest.Machine(pool, "general-a", old)
	b, _ := clustertest.Machine(pool, "general-b", old) // has no node yet
	c, nodeC := clustertest.Machine(pool, "general-c", old)
	delete(nodeC.Labels, v1.InitializedLabelKey)
	nodeC.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3"), corev1.ResourceMemory: {}}
	waiting, _ := clustertest.Machine(pool, "general-d", old)
	waiting.Status.ProviderID = "" // not launched
	going, nodeGoing := clustertest.Machine(pool, "general-e", old)
	w := newWorld(t, pool, a, nodeA, b, c, nodeC, waiting, going, nodeGoing)
	w.Must(w.Client.Delete(w, going))
	got := w.pass().Status
	cpu, memory, nodes := got.Resources[corev1.ResourceCPU], got.Resources[corev1.ResourceMemory], got.Resources[v1.ResourceNodes]
	if cpu.String() != "11" || memory.String() != "24Gi" || nodes.String() != "3" || *got.Nodes != 3 {
		t.Errorf("got %s cores, %s memory, %s nodes, status.nodes %d", cpu.String(), memory.String(), nodes.String(), *got.Nodes)
	}
}

func TestClaimsOfAnOlderFingerprintAreStampedAgain(t *testing.T) {
	pool := bare("general")
	pool.Annotations = map[string]string{v1.NodePoolHashVersionAnnotationKey: "v2", v1.NodePoolHashAnnotationKey: "1"}
	a, _ := clustertest.Machine(pool, "general-a", old)
	a.Annotations = map[string]string{v1.NodePoolHashVersionAnnotationKey: "v2", v1.NodePoolHashAnnotationKey: "1"}
	b, _ := clustertest.Machine(pool, "general-b", old)
	b.Annotations = map[string]string{v1.NodePoolHashVersionAnnotationKey: "v2", v1.NodePoolHashAnnotationKey: "1"}
	v1.SetCondition(b, v1.ConditionDrifted, metav1.ConditionTrue, "NodePoolDrifted", "", old)
	w := newWorld(t, pool, a, b)
	hash := w.pass().Hash()
	for _, claim := range w.Claims() {
		want := hash
		if claim.Name == "general-b" {
			want = "1" // or it would stop being drifted
		}
		if claim.Annotations[v1.NodePoolHashVersionAnnotationKey] != "v3" || claim.Annotations[v1.NodePoolHashAnnotationKey] != want {
			t.Errorf("%s: %v", claim.Name, claim.Annotations)
		}
	}
}

func TestClaimsOfTheSameFingerprintSchemeKeepTheirFingerprint(t *testing.T) {
	pool := bare("general")
	pool.Annotations = map[string]string{v1.NodePoolHashVersionAnnotationKey: "v3", v1.NodePoolHashAnnotationKey: "1"}
	a, _ := clustertest.Machine(pool, "general-a", old)
	a.Annotations = map[string]string{v1.NodePoolHashVersionAnnotationKey: "v3", v1.NodePoolHashAnnotationKey: "1"}
	w := newWorld(t, pool, a)
	w.pass()
	if got := w.Claims()[0].Annotations[v1.NodePoolHashAnnotationKey]; got != "1" {
		t.Errorf("the claim's fingerprint became %s: it would never drift", got)
	}
}

func TestRegistrationHealthFollowsTheLastFourMachines(t *testing.T) {
	for name, c := range map[string]struct {
		outcomes string // + joined, - did not
		want     metav1.ConditionStatus
	}{
		"nothing yet":              {"", metav1.ConditionUnknown},
		"joined":                   {"+", metav1.ConditionTrue},
		"one failure says nothing": {"-", metav1.ConditionUnknown},
		"two failures":             {"--", metav1.ConditionFalse},
		"two of four":              {"+-+-", metav1.ConditionFalse},
		"one success is too few":   {"--+", metav1.ConditionFalse},
		"three successes":          {"--+++", metav1.ConditionTrue},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, bare("general"))
			pool := w.pass()
			for _, outcome := range c.outcomes {
				w.health.Registered(pool.UID, outcome == '+', "", "")
				pool = w.pass()
			}
			if got := v1.GetCondition(pool, v1.ConditionNodeRegistrationHealthy); got.Status != c.want {
				t.Errorf("got %+v, want %s", got, c.want)
			}
		})
	}
}

func TestRegistrationHealthSurvivesARestart(t *testing.T) {
	w := newWorld(t, bare("general"))
	pool := w.pass()
	w.health.Registered(pool.UID, false, "", "")
	w.health.Registered(pool.UID, false, "", "")
	w.pass()
	w.restart()
	if got := v1.GetCondition(w.pass(), v1.ConditionNodeRegistrationHealthy).Status; got != metav1.ConditionFalse {
		t.Errorf("after a restart %s", got)
	}
	w.health.Registered(pool.UID, true, "", "")
	if got := v1.GetCondition(w.pass(), v1.ConditionNodeRegistrationHealthy).Status; got != metav1.ConditionFalse {
		t.Errorf("one success wiped out two failures from before the restart: %s", got)
	}
}

func TestRegistrationHealthBeginsAnewWhenTheClassChanges(t *testing.T) {
	w := newWorld(t, bare("general"))
	pool := w.pass()
	w.health.Registered(pool.UID, true, "", "")
	w.pass()
	class := &kwokv1alpha1.KWOKNodeClass{}
	w.Must(w.Client.Get(w, client.ObjectKey{Name: "default"}, class))
	class.Generation = 7
	w.Must(w.Client.Update(w, class))
	got := w.pass()
	if c := v1.GetCondition(got, v1.ConditionNodeRegistrationHealthy); c.Status != metav1.ConditionUnknown || got.Status.NodeClassObservedGeneration != 7 {
		t.Errorf("got %+v", c)
	}
}

func TestWhatIsNotSupportedIsSaidOnThePool(t *testing.T) {
	pool := bare("general")
	pool.Spec.Replicas = new(int64)
	w := newWorld(t, pool)
	got := w.pass()
	c := v1.GetCondition(got, v1.ConditionNotSupported)
	if c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "spec.replicas") {
		t.Fatalf("got %+v", c)
	}
	if !v1.IsTrue(got, v1.ConditionReady) {
		t.Error("the pool cannot be used because of it")
	}
	moving := bare("general")
	moving.Spec.Disruption.ConsolidationPolicy = v1.WhenEmptyOrUnderutilized
	if c := v1.GetCondition(newWorld(t, moving).pass(), v1.ConditionNotSupported); c != nil {
		t.Errorf("a pool that asks for nothing unusual has %+v", c)
	}
}

// Sharing of GPUs that cannot be is planned as no sharing: the pools that can buy such machines say so, and no others.
func TestSharingThatCannotBeIsSaidOnThePool(t *testing.T) {
	kind := func(name, problem string) engine.InstanceType {
		return engine.InstanceType{Name: name, Labels: map[string][]string{corev1.LabelInstanceTypeStable: {name}}, Devices: &engine.DeviceSource{Problem: problem},
			Offerings: []engine.Offering{{Zone: "a", CapacityType: v1.CapacityTypeOnDemand, Price: 1}}}
	}
	class := &engine.Class{InstanceTypes: []engine.InstanceType{kind("g10", "it cannot be"), kind("g2", "it cannot be"), kind("g3", ""), kind("h1", "nor this")}}
	pool := bare("general")
	want := []string{"sharing of GPUs: it cannot be; g2, g10: machines are planned with whole GPUs", "sharing of GPUs: nor this; h1: machines are planned with whole GPUs"}
	if got := nodepool.Unsupported(pool, class, false); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	pool.Spec.Template.Spec.Requirements = []v1.Requirement{{Key: corev1.LabelInstanceTypeStable, Operator: v1.In, Values: []string{"g3"}}}
	if got := nodepool.Unsupported(pool, class, false); len(got) > 0 {
		t.Errorf("of a pool that buys none of them: %q", got)
	}
	if got := nodepool.Unsupported(pool, nil, false); len(got) > 0 {
		t.Errorf("without a class: %q", got)
	}
}

func TestAPassThatChangesNothingWritesNothing(t *testing.T) {
	w := newWorld(t, bare("general"))
	w.pass()
	before := w.pass().ResourceVersion
	w.Clock.Step(time.Hour)
	if after := w.pass().ResourceVersion; after != before {
		t.Errorf("written again: version %s became %s", before, after)
	}
}
