package workload_test

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/workload"
)

// published reads the lines of testdata/published.txt that begin with the word, or all others.
func published(t *testing.T, catalog bool) []string {
	t.Helper()
	file, err := os.Open("testdata/published.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var out []string
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := lines.Text()
		if !strings.HasPrefix(line, "#") && strings.HasPrefix(line, "catalog ") == catalog {
			out = append(out, line)
		}
	}
	return out
}

func TestCatalogIsThePublishedOne(t *testing.T) {
	t.Parallel()
	kinds := workload.Catalog()
	var all strings.Builder
	offerings := 0
	for _, k := range kinds {
		fmt.Fprintf(&all, "%s %s %s %dMi %s %s\n", k.Name, k.Labels[corev1.LabelArchStable][0], amount(k.Capacity, corev1.ResourceCPU),
			bytes(k.Capacity)>>20, amount(k.Capacity, corev1.ResourcePods), amount(k.Capacity, "nvidia.com/gpu"))
		for _, o := range k.Offerings {
			offerings++
			fmt.Fprintf(&all, "  %s %s %.6f\n", o.CapacityType, o.Zone, o.Price)
		}
	}
	got := fmt.Sprintf("catalog %d %d %s", len(kinds), offerings, digest(all.String()))
	if want := published(t, true)[0]; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestSeedsGiveThePublishedPods(t *testing.T) {
	t.Parallel()
	for _, want := range published(t, false) {
		var kind string
		var count int
		var seed uint64
		if _, err := fmt.Sscan(want, &kind, &count, &seed); err != nil {
			t.Fatal(err)
		}
		t.Run(fmt.Sprintf("%s-%d/seed-%d", kind, count, seed), func(t *testing.T) {
			t.Parallel()
			if got := summary(kind, count, seed); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// summary returns the line of testdata/published.txt.
func summary(kind string, count int, seed uint64) string {
	s := workload.Cost(kind, count, seed, v1.CapacityTypeOnDemand)
	var all strings.Builder
	var cpu, memory, gpus int64
	apps, constrained := map[string]bool{}, map[string]int{}
	for _, pod := range s.Pods {
		requests := pod.Spec.Containers[0].Resources.Requests
		gpu := requests["nvidia.com/gpu"]
		fmt.Fprintf(&all, "%s %s %d %d %d %s\n", pod.Name, pod.Labels["app"], requests.Cpu().MilliValue(), bytes(requests)>>20, gpu.Value(), constraint(pod))
		cpu, memory, gpus = cpu+requests.Cpu().MilliValue(), memory+bytes(requests)>>20, gpus+gpu.Value()
		apps[pod.Labels["app"]] = true
		constrained[constraint(pod)]++
	}
	return fmt.Sprintf("%s %d %d %d %d %d %d %d %d %d %s", kind, len(s.Pods), seed, len(apps), cpu, memory, gpus,
		constrained["zone"], constrained["host"], constrained["apart"], digest(all.String()))
}

// constraint returns the name of the pod's constraint if all its details are right.
func constraint(pod *corev1.Pod) string {
	own := fmt.Sprint(map[string]string{"app": pod.Labels["app"]})
	if len(pod.Spec.TopologySpreadConstraints) > 0 {
		c := pod.Spec.TopologySpreadConstraints[0]
		hard := c.WhenUnsatisfiable == corev1.DoNotSchedule && fmt.Sprint(c.LabelSelector.MatchLabels) == own
		switch {
		case hard && c.TopologyKey == corev1.LabelTopologyZone && c.MaxSkew == 1:
			return "zone"
		case hard && c.TopologyKey == corev1.LabelHostname && c.MaxSkew == 2:
			return "host"
		}
		return "unknown"
	}
	if pod.Spec.Affinity == nil {
		return "-"
	}
	term := pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]
	if term.TopologyKey == corev1.LabelHostname && fmt.Sprint(term.LabelSelector.MatchLabels) == own {
		return "apart"
	}
	return "unknown"
}

func TestThePoolBuysOnlyWhatItMay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind     string
		capacity []string
		letters  string
	}{
		{workload.Mix, []string{v1.CapacityTypeOnDemand}, "cmr"},
		{workload.GPU, []string{v1.CapacityTypeOnDemand, v1.CapacityTypeSpot}, "cmrg"},
	} {
		s := workload.Cost(c.kind, 60, 1, c.capacity...)
		plan := provisioning.Plan(s, engine.Options{}, nil)
		if len(plan.Unplaced) > 0 || len(plan.Launches) == 0 {
			t.Errorf("%s: %d launches, not placed: %v", c.kind, len(plan.Launches), plan.Unplaced)
		}
		for _, l := range plan.Launches {
			for _, o := range l.Offerings {
				if !strings.Contains(c.letters, o.InstanceType[:1]) || !strings.Contains(fmt.Sprint(c.capacity), o.CapacityType) {
					t.Errorf("%s: launch %s lists %s", c.kind, l.Name, o)
				}
			}
		}
	}
}

func TestAnUnknownKindPanics(t *testing.T) {
	t.Parallel()
	defer func() {
		if got := recover(); got != "there is no cost workload nothing" {
			t.Errorf("got %v", got)
		}
	}()
	workload.Cost("nothing", 1, 1)
}

func amount(list corev1.ResourceList, name corev1.ResourceName) string {
	q := list[name]
	return q.String()
}

func bytes(list corev1.ResourceList) int64 { return list.Memory().Value() }

func digest(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:16] }
