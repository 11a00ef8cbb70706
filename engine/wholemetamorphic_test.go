package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
	"tenon.sh/scenario/scenariotest"
	"tenon.sh/scenario/workload"
)

// This file holds laws about two clusters that differ in one property.

// offers are changes after which each offering can still be bought, at the same price or less.
func offers() map[string]func(s *engine.Snapshot, r *rand.Rand) *engine.Snapshot {
	return map[string]func(s *engine.Snapshot, r *rand.Rand) *engine.Snapshot{
		"a type more": func(s *engine.Snapshot, r *rand.Rand) *engine.Snapshot {
			return withTypes(s, func(types []engine.InstanceType) []engine.InstanceType {
				t := types[r.IntN(len(types))]
				t.Name += "-more"
				t.Capacity = t.Capacity.DeepCopy()
				cpu := t.Capacity[corev1.ResourceCPU]
				cpu.Set(cpu.Value() * int64(1+r.IntN(3)))
				t.Capacity[corev1.ResourceCPU] = cpu
				t.Offerings = slices.Clone(t.Offerings)
				for i := range t.Offerings {
					t.Offerings[i].Price *= 0.5 + 2*r.Float64()
				}
				return append(types, t)
			})
		},
		"a zone more": func(s *engine.Snapshot, _ *rand.Rand) *engine.Snapshot {
			return withTypes(s, func(types []engine.InstanceType) []engine.InstanceType {
				for i := range types {
					for _, o := range types[i].Offerings {
						if o.Zone == types[i].Offerings[0].Zone && o.Reservation == "" {
							o.Zone = "another"
							types[i].Offerings = append(types[i].Offerings, o)
						}
					}
				}
				return types
			})
		},
		"a pool more": func(s *engine.Snapshot, r *rand.Rand) *engine.Snapshot {
			pool := s.NodePools[r.IntN(len(s.NodePools))].DeepCopy()
			pool.Name, pool.UID, pool.Spec.Limits = pool.Name+"-more", pool.UID+"-more", nil
			out := *s
			out.NodePools = append(slices.Clone(s.NodePools), pool)
			return &out
		},
		"a lower price": func(s *engine.Snapshot, r *rand.Rand) *engine.Snapshot {
			return withTypes(s, func(types []engine.InstanceType) []engine.InstanceType {
				t := &types[r.IntN(len(types))]
				t.Offerings[r.IntN(len(t.Offerings))].Price *= 0.3
				return types
			})
		},
	}
}

// withTypes returns the cluster with other instance types, which change may modify.
func withTypes(s *engine.Snapshot, change func([]engine.InstanceType) []engine.InstanceType) *engine.Snapshot {
	out := *s
	out.Classes = slices.Clone(s.Classes)
	for i := range out.Classes {
		types := slices.Clone(out.Classes[i].InstanceTypes)
		for j := range types {
			types[j].Offerings = slices.Clone(types[j].Offerings)
		}
		out.Classes[i].InstanceTypes = change(types)
	}
	return &out
}

// launched returns the names of the pods for which machines are bought.
func launched(plan *engine.Plan) []string {
	var out []string
	for _, l := range plan.Launches {
		for _, p := range l.Pods {
			out = append(out, p.String())
		}
	}
	slices.Sort(out)
	return out
}

// The bound is for all plans, so it can only fall if there are more offerings. The test compares plans that buy for the same pods, without
// limits and weights, which move pods to other pools. If pods spread over zones, a new zone is no mere choice, because some of the pods have to
// run in it.
func TestMoreToChooseFromNeverRaisesTheBound(t *testing.T) {
	t.Parallel()
	compared := 0
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		s = unlimited(s)
		before := provisioning.Plan(s, engine.Options{}, nil)
		for _, name := range slices.Sorted(mapKeys(offers())) {
			if name == "a zone more" && seed%2 == 1 {
				continue
			}
			after := provisioning.Plan(offers()[name](s, rand.New(rand.NewPCG(seed, 5))), engine.Options{}, nil)
			if !slices.Equal(launched(before), launched(after)) {
				continue
			}
			compared++
			if after.Cost.Bound > before.Cost.Bound*(1+boundSlack) {
				t.Errorf("seed %d: with %s the bound is %.6f, before %.6f", seed, name, after.Cost.Bound, before.Cost.Bound)
			}
		}
	})
	t.Logf("compared %d plans", compared)
}

func mapKeys[V any](m map[string]V) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// unlimited returns the cluster with pools without limits and with the same weight, and without reservations.
func unlimited(s *engine.Snapshot) *engine.Snapshot {
	out := withTypes(s, func(types []engine.InstanceType) []engine.InstanceType {
		for i := range types {
			types[i].Offerings = slices.DeleteFunc(types[i].Offerings, func(o engine.Offering) bool { return o.Reservation != "" })
		}
		return types
	})
	out.NodePools = nil
	for _, pool := range s.NodePools {
		pool = pool.DeepCopy()
		pool.Spec.Limits, pool.Spec.Weight = nil, nil
		out.NodePools = append(out.NodePools, pool)
	}
	return out
}

// goal returns how far above its bound the plan of a cost workload may be.
func goal(kind string) float64 {
	if kind == workload.GPU || kind == workload.Spread {
		return 1.03
	}
	return 1.01
}

// boundSlack is the largest error of the bound by floating point arithmetic, with a little room in each row.
const boundSlack = 1e-3

// In small workloads the last machine is a large part of the cost. So their plans are compared with the plan before the change instead of the
// bound.
func TestMoreToChooseFromLeavesCostWorkloadsNearTheOldBound(t *testing.T) {
	t.Parallel()
	for i, c := range []workload.CostCase{
		{Kind: workload.Web, Pods: 300}, {Kind: workload.Mem, Pods: 300}, {Kind: workload.CPU, Pods: 300}, {Kind: workload.Mix, Pods: 300},
		{Kind: workload.Spread, Pods: 300}, {Kind: workload.GPU, Pods: 300},
		{Kind: workload.Mix, Pods: 2000}, {Kind: workload.Mem, Pods: 2000}, {Kind: workload.GPU, Pods: 1000},
	} {
		t.Run(c.Name(), func(t *testing.T) {
			t.Parallel()
			s := workload.Cost(c.Kind, c.Pods, 1, v1.CapacityTypeOnDemand)
			before := provisioning.Plan(s, engine.Options{}, nil)
			limit := before.Cost.Bound
			if c.Pods < 1000 {
				limit = before.Cost.LaunchesPerHour
			}
			for j, name := range slices.Sorted(mapKeys(offers())) {
				if c.Pods >= 1000 && i%4 != j {
					continue // they take longer, so there is one change for each
				}
				after := provisioning.Plan(offers()[name](s, rand.New(rand.NewPCG(1, 5))), engine.Options{}, nil)
				t.Logf("%s: %.4f, the old bound %.4f: %.4f", name, after.Cost.LaunchesPerHour, before.Cost.Bound, after.Cost.LaunchesPerHour/before.Cost.Bound)
				if after.Cost.LaunchesPerHour > limit*goal(c.Kind) {
					t.Errorf("with %s the plan costs %.4f, more than %g times %.4f", name, after.Cost.LaunchesPerHour, goal(c.Kind), limit)
				}
				if after.Cost.Bound > before.Cost.Bound*(1+boundSlack) && !(c.Kind == workload.Spread && name == "a zone more") {
					t.Errorf("with %s the bound is %.4f, before %.4f", name, after.Cost.Bound, before.Cost.Bound)
				}
			}
		})
	}
}

// No selector uses the label that distinguishes the two halves, so the halves stay equal.
func TestSplittingADeploymentChangesNothing(t *testing.T) {
	t.Parallel()
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		want := scenariotest.Text(t, provisioning.Plan(s, engine.Options{}, nil))
		out := *s
		out.Pods = slices.Clone(s.Pods)
		for i, pod := range out.Pods {
			if kube.IsPending(pod) {
				pod = pod.DeepCopy()
				if pod.Labels == nil {
					pod.Labels = map[string]string{}
				}
				pod.Labels["half"] = strconv.Itoa(i % 2)
				out.Pods[i] = pod
			}
		}
		if got := scenariotest.Text(t, provisioning.Plan(&out, engine.Options{}, nil)); got != want {
			t.Errorf("seed %d: the halves are planned otherwise:\n%s", seed, scenariotest.FirstDifference(got, want))
		}
	})
}

func TestThreadsDoNotShow(t *testing.T) {
	t.Parallel()
	check := func(name string, s *engine.Snapshot) {
		want := scenariotest.Text(t, provisioning.Plan(s, engine.Options{}, nil))
		for _, threads := range []int{1, 2, 8} {
			if got := scenariotest.Text(t, provisioning.Plan(s, engine.Options{Threads: threads}, nil)); got != want {
				t.Errorf("%s: another plan with %d threads:\n%s", name, threads, scenariotest.FirstDifference(got, want))
			}
		}
	}
	for seed := range enginetest.Draws(20) {
		check(fmt.Sprintf("seed %d", seed), scenario.Random(seed, scenario.Size{Topology: seed%2 == 1}))
	}
	for _, kind := range []string{workload.Mix, workload.Spread, workload.GPU} {
		check(kind, workload.Cost(kind, 200, 1, v1.CapacityTypeOnDemand, v1.CapacityTypeSpot))
	}
}

func TestEveryEffortGivesAValidPlan(t *testing.T) {
	t.Parallel()
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		for _, effort := range []int{-1, 100, 100_000} {
			plan := provisioning.Plan(s, engine.Options{Effort: effort}, nil)
			for _, fault := range append(faults(s, plan), sequenceFaults(s, plan, func(int) int { return 0 }, map[string]int{})...) {
				t.Errorf("seed %d, effort %d: %s", seed, effort, fault)
			}
			if plan.Cost.Bound > plan.Cost.LaunchesPerHour*(1+1e-9) {
				t.Errorf("seed %d, effort %d: the plan costs %.6f, its bound is %.6f", seed, effort, plan.Cost.LaunchesPerHour, plan.Cost.Bound)
			}
		}
	})
}

func TestACacheNeverShows(t *testing.T) {
	t.Parallel()
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		r := rand.New(rand.NewPCG(seed, 8))
		cache := &inventory.Cache{}
		for step := range 4 {
			if want, got := scenariotest.Text(t, provisioning.Plan(s, engine.Options{}, nil)), scenariotest.Text(t, provisioning.Plan(s, engine.Options{}, cache)); got != want {
				t.Fatalf("seed %d, step %d: with a cache another plan:\n%s", seed, step, scenariotest.FirstDifference(got, want))
			}
			if step%2 == 1 {
				if want, got := scenariotest.Text(t, disruption.Plan(s, engine.Options{}, nil)), scenariotest.Text(t, disruption.Plan(s, engine.Options{}, cache)); got != want {
					t.Fatalf("seed %d, step %d: with a cache another disruption:\n%s", seed, step, scenariotest.FirstDifference(got, want))
				}
			}
			s = changed(s, r, step)
		}
	})
}

// changed returns the cluster some time later. Unchanged objects stay the same objects.
func changed(s *engine.Snapshot, r *rand.Rand, step int) *engine.Snapshot {
	out := *s
	chance := func(n int) bool { return r.IntN(n) == 0 }
	out.Pods = nil
	for _, pod := range s.Pods {
		switch {
		case chance(10):
			continue
		case chance(10) && pod.Spec.NodeName == "" && len(s.Nodes) > 0:
			pod = pod.DeepCopy()
			pod.Spec.NodeName, pod.Status.Phase = s.Nodes[r.IntN(len(s.Nodes))].Name, corev1.PodRunning
		case chance(10) && pod.Spec.NodeName != "":
			pod = pod.DeepCopy()
			if at := metav1.NewTime(s.Now.Add(time.Duration(r.IntN(10)-5) * time.Minute)); chance(2) {
				pod.DeletionTimestamp = &at
			} else {
				pod.Status.Phase = corev1.PodSucceeded
				pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: at})
			}
		case chance(10):
			pod = pod.DeepCopy()
			if pod.Labels == nil {
				pod.Labels = map[string]string{}
			}
			pod.Labels["tier"] = []string{"front", "back"}[r.IntN(2)]
		case chance(10) && pod.Spec.NodeName == "":
			more := pod.DeepCopy()
			more.Name, more.UID = fmt.Sprintf("%s-%d", pod.Name, step), pod.UID+"-more"
			for i := range more.Spec.Containers {
				more.Spec.Containers[i].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: pod.Spec.Containers[i].Resources.Requests[corev1.ResourceMemory].DeepCopy()}
			}
			out.Pods = append(out.Pods, more)
		}
		out.Pods = append(out.Pods, pod)
	}
	out.Nodes = nil
	for _, node := range s.Nodes {
		if chance(8) {
			node = node.DeepCopy()
			node.Spec.Unschedulable = !node.Spec.Unschedulable
		}
		if !chance(8) {
			out.Nodes = append(out.Nodes, node)
		}
	}
	out.NodeClaims = nil
	for _, c := range s.NodeClaims {
		if chance(6) {
			c = c.DeepCopy()
			status := []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse}[r.IntN(2)]
			switch condition := []string{v1.ConditionDrifted, v1.ConditionInstanceTerminating, v1.ConditionRebooting, v1.ConditionInitialized, ""}[r.IntN(5)]; condition {
			case "":
				at := metav1.NewTime(s.Now)
				c.DeletionTimestamp = &at
			default:
				v1.SetCondition(c, condition, status, "Changed", "", s.Now.Add(-time.Minute))
			}
		}
		if !chance(10) {
			out.NodeClaims = append(out.NodeClaims, c)
		}
	}
	out.Now = s.Now.Add(time.Duration(r.IntN(40)-10) * time.Minute) // backwards too, because clocks are corrected
	out.NodePools = slices.Clone(s.NodePools)
	if i := r.IntN(len(s.NodePools)); chance(2) {
		out.NodePools[i] = s.NodePools[i].DeepCopy()
		out.NodePools[i].Spec.Template.Spec.Taints = nil
	}
	out.Namespaces = slices.Clone(s.Namespaces)
	if len(s.Namespaces) > 0 && chance(3) {
		out.Namespaces[0] = s.Namespaces[0].DeepCopy()
		out.Namespaces[0].Labels["team"] = "c"
	}
	out.PersistentVolumes = slices.DeleteFunc(slices.Clone(s.PersistentVolumes), func(*corev1.PersistentVolume) bool { return chance(8) })
	out.StorageClasses = slices.Clone(s.StorageClasses)
	if len(out.StorageClasses) > 0 && chance(4) {
		out.StorageClasses[0] = s.StorageClasses[0].DeepCopy()
		out.StorageClasses[0].AllowedTopologies = nil
	}
	if chance(3) {
		return offers()["a lower price"](&out, r)
	}
	return &out
}
