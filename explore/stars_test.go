package explore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/controller/provision"
	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
	"tenon.sh/explore"
	"tenon.sh/report"
)

// star is a known failure of autoscalers, which a switch brings back, and the laws that it breaks.
type star struct {
	name string
	put  func() explore.Switches
	laws []string
	// quick is the number of runs in which make test finds the failure. A failure with 0 is rare: make explore finds it, or make test-draws.
	quick uint64
}

func stars() []star {
	return []star{
		{"a node is empty because the cache says so", trustingTheCache, []string{"no node is removed as empty while a pod runs there", "no machine is stopped under a pod"}, 2000},
		{"kube-scheduler is slower than the wait after the taint", slowScheduler, []string{"no machine is stopped under a pod"}, 0},
		{"machines that register slowly are given up", impatient, []string{"launching ends"}, 2000},
		{"DaemonSets are not seen, nor what pools remember", forgetfulOf("DaemonSet"), []string{"launching ends", "everything comes to rest"}, 2000 * (enginetest.Few(2) - 1)},
		{"the limit on nodes is not read", limits(func(l v1.Limits) { delete(l, v1.ResourceNodes) }), []string{"limits are never exceeded"}, 2000},
		{"the limit on cores is not read", limits(func(l v1.Limits) { delete(l, corev1.ResourceCPU) }), []string{"limits are never exceeded"}, 2000},
		{"the limit on nodes is off by one", limits(oneMore), []string{"limits are never exceeded"}, 2000},
		{"two loops launch, and do not know of each other", twice(false), []string{"limits are never exceeded", "a pod gets one machine at a time"}, 2000},
		{"what a pass wrote is forgotten by the next", twice(true), []string{"limits are never exceeded", "a pod gets one machine at a time"}, 2000},
		{"nodes that leave are not seen to", blindToLeaving, []string{"budgets are never exceeded"}, 2000},
		{"pods are pointed at nodes that leave", blindToLeaving, []string{"no pod is pointed at a node that is seen to leave", "nobody waits for a node that is not there", "every pending pod has a place or a reason"}, 2000},
		{"the class's readiness is an old one", alwaysReady, []string{"nothing is launched with a class that has long been broken"}, 2000},
		{"labels are merged in the wrong order", otherTeam, []string{"what was promised to pods stays"}, 2000},
		{"updates are lost", unlocked, []string{"no write undoes what another has written"}, 2000},
		{"a launch that is repeated is another one", newToken, []string{"a claim has one machine"}, 2000 * (enginetest.Few(2) - 1)},
		{"machines that nobody wrote down are not looked for", noMachines, []string{"machines are those of claims"}, 2000},
	}
}

// Each of these failures is found. So the laws detect them, and the runs reach the states in which they happen. EXPLORE_STARS sets the number
// of runs for each.
func TestFailuresThatArePutInAreFound(t *testing.T) {
	t.Parallel()
	for _, s := range stars() {
		if number(t, "EXPLORE_STARS", s.quick) == 0 {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			runs := number(t, "EXPLORE_STARS", s.quick)
			found := func(r explore.Result) bool {
				return r.Violation != nil && (len(s.laws) == 0 || slices.Contains(s.laws, r.Violation.Law))
			}
			var seed, after atomic.Uint64
			all := explorers(1, runs, explore.Options{Switches: s.put()}, func(r explore.Result) bool {
				after.Add(1)
				if found(r) {
					seed.Store(r.Seed)
				}
				return found(r)
			})
			if seed.Load() == 0 {
				t.Fatalf("not found in %d runs; broken were %v", runs, slices.Sorted(maps.Keys(all.broken)))
			}
			for law, results := range all.broken {
				if results[0].Seed == seed.Load() || slices.Contains(s.laws, law) {
					t.Logf("found after %d runs, seed %d: %v", after.Load(), seed.Load(), results[0].Violation)
				}
			}
		})
	}
}

func trustingTheCache() explore.Switches { return explore.Switches{TrustCache: true} }

func slowScheduler() explore.Switches { return explore.Switches{SchedulerLag: time.Minute} }

// impatient adds a loop that gives up machines whose node is missing after some seconds.
func impatient() explore.Switches {
	return explore.Switches{Controllers: func(c *cluster.Cluster, add func(string, func(context.Context) error, time.Duration)) {
		add("impatience", func(ctx context.Context) error {
			snap, err := c.Snapshot(ctx)
			if err != nil {
				return err
			}
			for _, claim := range snap.NodeClaims {
				if claim.DeletionTimestamp == nil && !v1.IsTrue(claim, v1.ConditionRegistered) && c.Clock.Since(claim.CreationTimestamp.Time) > 5*time.Second {
					if err := c.DeleteClaim(ctx, claim); err != nil {
						return err
					}
				}
			}
			return nil
		}, time.Second)
	}}
}

// forgetfulOf hides a kind, and the memory that machines did not accept their pods. Otherwise no further machines would be started soon.
func forgetfulOf(hidden string) func() explore.Switches {
	return func() explore.Switches {
		return explore.Switches{View: func(kind string) func(client.Object) client.Object {
			switch kind {
			case hidden:
				return func(client.Object) client.Object { return nil }
			case "NodePool":
				return func(o client.Object) client.Object {
					o = o.DeepCopyObject().(client.Object)
					delete(o.GetAnnotations(), v1.LaunchBackoffAnnotationKey)
					return o
				}
			}
			return nil
		}}
	}
}

// limits changes the autoscaler's view of pools' limits.
func limits(change func(v1.Limits)) func() explore.Switches {
	return seeing("NodePool", func(o client.Object) {
		change(o.(*v1.NodePool).Spec.Limits)
	})
}

func oneMore(l v1.Limits) {
	if n, ok := l[v1.ResourceNodes]; ok {
		n.Set(n.Value() + 1)
		l[v1.ResourceNodes] = n
	}
}

// seeing changes the autoscaler's view of a kind.
func seeing(seen string, change func(client.Object)) func() explore.Switches {
	return func() explore.Switches {
		return explore.Switches{View: func(kind string) func(client.Object) client.Object {
			if kind != seen {
				return nil
			}
			return func(o client.Object) client.Object {
				o = o.DeepCopyObject().(client.Object)
				change(o)
				return o
			}
		}}
	}
}

// twice adds a second provisioner with a mirror of its own, or one that starts afresh in each pass and trusts the caches.
func twice(forgetful bool) func() explore.Switches {
	return func() explore.Switches {
		return explore.Switches{Controllers: func(c *cluster.Cluster, add func(string, func(context.Context) error, time.Duration)) {
			metrics := report.NewMetrics(prometheus.NewRegistry(), "second")
			fresh := func() *provision.Reconciler {
				config := c.Config
				if forgetful {
					config.API = config.Client
				}
				return provision.New(provision.Config{Cluster: cluster.New(config), Recorder: report.NewRecorder(config.Client, config.Clock), Metrics: metrics, Options: engine.Options{Effort: 100}, AtOnce: 1})
			}
			second := fresh()
			add("second", func(ctx context.Context) error {
				if forgetful {
					second = fresh()
				}
				return second.Reconcile(ctx)
			}, time.Second)
		}}
	}
}

// blindToLeaving hides from the autoscaler that nodes and claims are being removed.
func blindToLeaving() explore.Switches {
	return explore.Switches{View: func(kind string) func(client.Object) client.Object {
		if kind != "Node" && kind != "NodeClaim" {
			return nil
		}
		return func(o client.Object) client.Object {
			o = o.DeepCopyObject().(client.Object)
			o.SetDeletionTimestamp(nil)
			if node, ok := o.(*corev1.Node); ok {
				node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1.DisruptedTaintKey })
			}
			return o
		}
	}}
}

func alwaysReady() explore.Switches {
	return seeing("KWOKNodeClass", func(o client.Object) {
		o.(*kwokv1alpha1.KWOKNodeClass).SetConditions([]metav1.Condition{{Type: v1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1.ConditionReady}})
	})()
}

// otherTeam lets the last write replace a claim's promised labels.
func otherTeam() explore.Switches {
	return explore.Switches{Patch: func(o client.Object, data []byte) []byte {
		if _, claim := o.(*v1.NodeClaim); !claim || !strings.Contains(string(data), corev1.LabelInstanceTypeStable) {
			return data
		}
		return edited(data, func(patch map[string]any) {
			if meta, ok := patch["metadata"].(map[string]any); ok && meta["labels"] != nil {
				meta["labels"].(map[string]any)["team"] = "z"
			}
		})
	}}
}

// unlocked removes the expected version from each patch.
func unlocked() explore.Switches {
	return explore.Switches{Patch: func(_ client.Object, data []byte) []byte {
		return edited(data, func(patch map[string]any) {
			if meta, ok := patch["metadata"].(map[string]any); ok {
				delete(meta, "resourceVersion")
			}
		})
	}}
}

// edited changes a merge patch. Other patches stay unchanged.
func edited(data []byte, change func(map[string]any)) []byte {
	var patch map[string]any
	if json.Unmarshal(data, &patch) != nil {
		return data
	}
	change(patch)
	out, err := json.Marshal(patch)
	if err != nil {
		return data
	}
	return out
}

// newToken makes each launch a new one for the cloud.
func newToken() explore.Switches {
	var n atomic.Int64
	return explore.Switches{Token: func(claim *v1.NodeClaim) *v1.NodeClaim {
		claim = claim.DeepCopy()
		claim.Name = fmt.Sprintf("%s-%d", claim.Name, n.Add(1))
		claim.UID = types.UID(fmt.Sprintf("%s#%d", claim.UID, n.Load()))
		return claim
	}}
}

func noMachines() explore.Switches {
	return explore.Switches{Machines: func([]engine.Machine) []engine.Machine { return nil }}
}
