package oracle

import (
	"encoding/json"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
)

func TestASeedIsACluster(t *testing.T) {
	t.Parallel()
	text := func(seed uint64) string {
		b, err := json.Marshal(Draw(seed))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for seed := range uint64(20) {
		first, second := text(seed), text(seed)
		if first != second {
			t.Errorf("seed %d gives two clusters", seed)
		}
		if first == text(seed+1) {
			t.Errorf("seeds %d and %d give the same cluster", seed, seed+1)
		}
	}
}

func TestDrawnClustersAreSmall(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		s := Draw(seed)
		waiting := 0
		for _, p := range s.Pods {
			if p.Spec.NodeName == "" {
				waiting++
			}
		}
		machines := len(s.NodeClaims)
		for _, n := range s.Nodes {
			if n.Spec.ProviderID == "" {
				machines++
			}
		}
		if types := len(s.Classes[0].InstanceTypes); waiting < 5 || waiting > 40 || machines < 3 || machines > 12 || types < 10 || types > 20 {
			t.Errorf("seed %d: %d pods wait, %d machines, %d types", seed, waiting, machines, types)
		}
	}
}

// An API server would refuse objects that contradict each other.
func TestObjectsOfADrawnClusterFitTogether(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		s := Draw(seed)
		names, nodes, volumes := map[string]bool{}, map[string]bool{}, map[string]*corev1.PersistentVolume{}
		for _, n := range s.Nodes {
			nodes[n.Name] = true
		}
		for _, pv := range s.PersistentVolumes {
			if volumes[pv.Name] != nil {
				t.Errorf("seed %d: two volumes %s", seed, pv.Name)
			}
			volumes[pv.Name] = pv
		}
		for _, p := range s.Pods {
			id := p.Namespace + "/" + p.Name
			if names[id] || p.UID == "" {
				t.Errorf("seed %d: pod %s is there twice, or has no UID", seed, id)
			}
			names[id] = true
			if p.Spec.NodeName != "" && !nodes[p.Spec.NodeName] {
				t.Errorf("seed %d: pod %s runs on %s, which is not there", seed, id, p.Spec.NodeName)
			}
		}
		checkClaims(t, seed, s, volumes)
	}
}

func checkClaims(t *testing.T, seed uint64, s *engine.Snapshot, volumes map[string]*corev1.PersistentVolume) {
	t.Helper()
	seen := map[string]bool{}
	for _, c := range s.PersistentVolumeClaims {
		id := c.Namespace + "/" + c.Name
		pv := volumes[c.Spec.VolumeName]
		switch {
		case seen[id]:
			t.Errorf("seed %d: two claims %s", seed, id)
		case c.Status.Phase == corev1.ClaimBound && (pv == nil || pv.Spec.ClaimRef.Name != c.Name || pv.Spec.ClaimRef.Namespace != c.Namespace):
			t.Errorf("seed %d: claim %s is bound to %s, which is not there or another's", seed, id, c.Spec.VolumeName)
		case c.Status.Phase == corev1.ClaimPending && c.Spec.VolumeName != "":
			t.Errorf("seed %d: claim %s waits and has volume %s", seed, id, c.Spec.VolumeName)
		}
		seen[id] = true
	}
}

// All features for which the engine has rules appear within a few clusters.
func TestDrawnClustersHaveAllFeatures(t *testing.T) {
	t.Parallel()
	found := map[string]int{}
	for seed := range uint64(100) {
		s := Draw(seed)
		for name, n := range map[string]int{
			"daemonsets": len(s.DaemonSets), "limit ranges": len(s.LimitRanges), "volumes": len(s.PersistentVolumes), "attachments": len(s.VolumeAttachments),
			"services": len(s.Services), "replica sets": len(s.ReplicaSets), "stateful sets": len(s.StatefulSets), "device classes": len(s.DeviceClasses),
			"default constraints": len(Constraints(seed)),
		} {
			found[name] += n
		}
		for _, p := range s.Pods {
			for _, name := range featuresOf(p) {
				found[name]++
			}
		}
	}
	for _, name := range []string{
		"daemonsets", "limit ranges", "volumes", "attachments", "services", "replica sets", "stateful sets", "device classes", "default constraints",
		"hard spread", "soft spread", "min domains", "match label keys", "taints policy", "affinity", "preferred affinity", "anti-affinity",
		"preferred anti-affinity", "node affinity", "preferred node affinity", "match fields", "tolerations", "claims", "ephemeral", "host ports",
		"sidecars", "init containers", "overhead", "pod-level resources", "devices", "storage", "priority", "declared features", "nominated", "gated",
		"terminating", "resized", "namespaces", "resource claims",
	} {
		if found[name] == 0 {
			t.Errorf("100 clusters without any %s", name)
		}
	}
}

// featuresOf names the features of the pod.
func featuresOf(p *corev1.Pod) []string {
	uses := map[string]bool{
		"tolerations": len(p.Spec.Tolerations) > 2, "overhead": p.Spec.Overhead != nil, "pod-level resources": p.Spec.Resources != nil,
		"priority": p.Spec.Priority != nil, "declared features": len(p.Spec.Containers[0].RestartPolicyRules) > 0,
		"nominated": p.Status.NominatedNodeName != "", "gated": len(p.Spec.SchedulingGates) > 0, "terminating": p.DeletionTimestamp != nil,
		"resized": len(p.Status.ContainerStatuses) > 0, "resource claims": len(p.Spec.ResourceClaims) > 0,
	}
	for _, c := range p.Spec.TopologySpreadConstraints {
		uses["hard spread"] = uses["hard spread"] || c.WhenUnsatisfiable == corev1.DoNotSchedule
		uses["soft spread"] = uses["soft spread"] || c.WhenUnsatisfiable == corev1.ScheduleAnyway
		uses["min domains"] = uses["min domains"] || c.MinDomains != nil
		uses["match label keys"] = uses["match label keys"] || len(c.MatchLabelKeys) > 0
		uses["taints policy"] = uses["taints policy"] || c.NodeTaintsPolicy != nil
	}
	if a := p.Spec.Affinity; a != nil {
		if x := a.PodAffinity; x != nil {
			uses["affinity"], uses["preferred affinity"] = len(x.RequiredDuringSchedulingIgnoredDuringExecution) > 0, len(x.PreferredDuringSchedulingIgnoredDuringExecution) > 0
		}
		if x := a.PodAntiAffinity; x != nil {
			uses["anti-affinity"], uses["preferred anti-affinity"] = len(x.RequiredDuringSchedulingIgnoredDuringExecution) > 0, len(x.PreferredDuringSchedulingIgnoredDuringExecution) > 0
		}
		if x := a.NodeAffinity; x != nil {
			uses["preferred node affinity"] = len(x.PreferredDuringSchedulingIgnoredDuringExecution) > 0
			if r := x.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
				uses["node affinity"] = true
				uses["match fields"] = slices.ContainsFunc(r.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool { return len(t.MatchFields) > 0 })
			}
		}
	}
	for _, term := range affinityTerms(p) {
		uses["namespaces"] = uses["namespaces"] || len(term.Namespaces) > 0 || term.NamespaceSelector != nil
	}
	for _, v := range p.Spec.Volumes {
		uses["claims"] = uses["claims"] || v.PersistentVolumeClaim != nil
		uses["ephemeral"] = uses["ephemeral"] || v.Ephemeral != nil
	}
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		uses["host ports"] = uses["host ports"] || len(c.Ports) > 0
		uses["devices"] = uses["devices"] || !c.Resources.Requests.Name(gpu, "").IsZero()
		uses["storage"] = uses["storage"] || !c.Resources.Requests.StorageEphemeral().IsZero()
	}
	for _, c := range p.Spec.InitContainers {
		uses["sidecars"] = uses["sidecars"] || c.RestartPolicy != nil
		uses["init containers"] = uses["init containers"] || c.RestartPolicy == nil
	}
	var names []string
	for name, used := range uses {
		if used {
			names = append(names, name)
		}
	}
	return names
}
