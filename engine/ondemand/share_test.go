package ondemand_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/ondemand"
	"tenon.sh/scenario"
)

func TestSharesAreRoundedUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text       string
		pods, want int
	}{
		{"30%", 10, 3}, {"30%", 1, 1}, {"30%", 0, 0}, {"34%", 3, 2}, {"100%", 7, 7}, {"0%", 7, 0}, {"1%", 100, 1}, {"1%", 101, 2},
		{"2", 10, 2}, {"2", 1, 1}, {"0", 4, 0}, {" 50% ", 3, 2}, {"2000000000", 3, 3},
	} {
		share, err := ondemand.ReadShare(c.text)
		if err != nil || share.Of(c.pods) != c.want {
			t.Errorf("%q of %d pods is %d, %v; want %d", c.text, c.pods, share.Of(c.pods), err, c.want)
		}
	}
	for _, text := range []string{"", "%", "abc", "-3", "-3%", "+3", "200%", "101%", "1e9", "2.5", "30 %", "30%%", "99999999999999999999", "NaN"} {
		share, err := ondemand.ReadShare(text)
		if err == nil || !strings.Contains(err.Error(), `"30%" or "2"`) || share.Of(10) != 0 {
			t.Errorf("%q is read as %+v, %v", text, share, err)
		}
	}
}

func clusterOf(t *testing.T, lines ...string) *engine.Snapshot {
	t.Helper()
	f, err := scenario.Parse(strings.Join(lines, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return f.Snapshot
}

// markedNames lists the pods that have to run on demand.
func markedNames(s *engine.Snapshot) string {
	var out []string
	for _, pod := range s.Pods {
		if kube.MustRunOnDemand(pod) {
			out = append(out, pod.Name)
		}
	}
	return strings.Join(out, " ")
}

func TestWhoHasToRunOnDemand(t *testing.T) {
	t.Parallel()
	cluster := []string{
		"pool p capacity in (spot,on-demand)", "type t cpu=8 mem=16Gi price=0.4 spot=0.1", "pool r capacity in (reserved)",
		"node od pool=p type=t zone=a capacity=on-demand", "node od2 pool=p type=t zone=a capacity=on-demand", "node spot pool=p type=t zone=a capacity=spot",
		"node going pool=p type=t zone=a capacity=on-demand deleting", "node own cpu=8 mem=16Gi",
		"node eks cpu=8 mem=16Gi labels=eks.amazonaws.com/capacityType:SPOT",
	}
	for name, c := range map[string]struct {
		pods []string
		want string
	}{
		"those that do already":             {[]string{"pod a", "pod b node=spot", "pod c node=od"}, "c"},
		"before those that wait":            {[]string{"pod a untried", "pod b node=spot", "pod c"}, "c"},
		"which come before untried ones":    {[]string{"pod a gated", "pod b untried", "pod c node=spot"}, "b"},
		"and these before gated ones":       {[]string{"pod a node=spot", "pod b gated"}, "b"},
		"the oldest first":                  {[]string{"pod a age=1m", "pod b age=2m"}, "b"},
		"the fullest machine of them first": {[]string{"pod a node=od age=9m", "pod b node=od2", "pod c node=od2"}, "b"},
		"one that nobody can remove first":  {[]string{"pod a node=od age=9m", "pod b node=od", "pod c node=own"}, "c"},
		"not on a machine that goes":        {[]string{"pod a node=going", "pod b node=od"}, "b"},
		"nor where only the claim goes yet": {[]string{"patch claim od2 deleting", "pod a node=od2 age=9m", "pod b node=od"}, "b"},
		"whose pods wait like others":       {[]string{"pod a node=going", "pod b node=spot", "pod c age=0s"}, "a"},
		"on nodes that nobody manages":      {[]string{"pod a node=own", "pod b node=spot"}, "a"},
		"but not on somebody else's spot":   {[]string{"pod a node=eks", "pod b node=own"}, "b"},
		"where they are nominated to":       {[]string{"pod a nominated=spot", "pod b nominated=od", "pod c"}, "b"},
		"not those that end or have ended":  {[]string{"pod a node=od deleting", "pod b node=od phase=Succeeded", "pod c node=spot"}, "c"},
		"pods without the annotation count": {[]string{"pod a node=od2", "pod plain node=od age=9m"}, "plain"},
		"not on a claim of spot machines":   {[]string{"claim c1 pool=p type=t zone=a capacity=spot planned=a age=9s", "pod a", "pod b age=0s"}, "b"},
		"nor where a disruption has begun":  {[]string{"order x nodes=od by=c1", "claim c1 pool=p type=t zone=a capacity=spot planned=a age=9s", "pod a node=od age=9m", "pod b node=od2"}, "b"},
		"but where its replacement will be": {[]string{"order x nodes=od by=c1", "claim c1 pool=p type=t zone=a capacity=on-demand planned=a age=9s", "pod a node=od", "pod b age=9m"}, "a"},
		"nor what the cloud takes away":     {[]string{"patch node spot annotations=tenon.sh/notice:x taint=karpenter.sh/disrupted:NoSchedule", "pod a node=spot", "pod b gated age=9m"}, "a"},
		"nor what is being stopped":         {[]string{"node ending pool=p type=t zone=a capacity=on-demand condition=(InstanceTerminating True)", "pod a node=ending age=9m", "pod b node=od2"}, "b"},
		"nor in what its owner takes back":  {[]string{"patch node od labels=karpenter.sh/capacity-type:reserved,karpenter.k8s.aws/capacity-reservation-interruptible:true", "pod a node=od age=9m", "pod b node=od2"}, "b"},
		"but in any other reservation":      {[]string{"patch node od labels=karpenter.sh/capacity-type:reserved,karpenter.k8s.aws/capacity-reservation-interruptible:false", "pod a node=od age=9m", "pod b node=spot"}, "a"},
		"nor what others remove":            {[]string{"patch node own taint=ToBeDeletedByClusterAutoscaler:NoSchedule", "pod a node=own age=9m", "pod b node=od"}, "b"},
		"nor on a claim without its node":   {[]string{"node gone pool=p type=t zone=a capacity=on-demand planned=a gone ready=9m", "pod a", "pod b age=9m"}, "b"},
		"but on a claim that is on demand":  {[]string{"claim c1 pool=p type=t zone=a capacity=on-demand planned=b age=9s", "pod a", "pod b age=0s"}, "b"},
		"of two claims the newest counts": {[]string{"claim c1 pool=p type=t zone=a capacity=on-demand planned=a age=9s",
			"claim c2 pool=p type=t zone=a capacity=spot planned=a age=5s", "pod a", "pod b age=0s"}, "b"},
	} {
		lines := cluster
		for _, pod := range c.pods {
			if strings.HasPrefix(pod, "pod ") {
				pod += " cpu=1 owner=Deployment/web"
				if !strings.Contains(pod, "plain") {
					pod += " on-demand-share=1"
				}
			}
			lines = append(lines[:len(lines):len(lines)], pod)
		}
		s := clusterOf(t, lines...)
		before := s.Pods[0].Annotations[kube.MustRunOnDemandMark]
		marked, notes := ondemand.Marked(s, &ondemand.Copies{})
		if got := markedNames(marked); got != c.want || len(notes) > 0 {
			t.Errorf("%s: %q have to run on demand, want %q; %v", name, got, c.want, notes)
		}
		if markedNames(s) != "" || before != "" {
			t.Errorf("%s: the snapshot before was changed", name)
		}
	}
}

// If several machines hold the same number of an owner's pods, the same machine stays for all owners, whatever the ages of their pods. The other
// machine may go.
func TestPodsThatHoldSharesAreTogether(t *testing.T) {
	t.Parallel()
	lines := []string{"pool p capacity in (spot,on-demand)", "type t cpu=8 mem=16Gi price=0.4 spot=0.1", "node od pool=p type=t zone=a capacity=on-demand", "node od2 pool=p type=t zone=a capacity=on-demand"}
	for i, node := range []string{"od", "od2", "od", "od2"} {
		lines = append(lines, fmt.Sprintf("pod a%d cpu=1 node=%s age=%dh owner=Deployment/a on-demand-share=2", i, node, 9-i), fmt.Sprintf("pod b%d cpu=1 node=%s age=%dh owner=Deployment/b on-demand-share=2", i, node, 1+i))
	}
	marked, _ := ondemand.Marked(clusterOf(t, lines...), &ondemand.Copies{})
	if got := markedNames(marked); got != "a0 b0 a2 b2" {
		t.Errorf("%q have to run on demand, want those of node od", got)
	}
}

// The annotations of an owner's pods may differ, because some pods are of an older template. The largest share counts.
func TestTheLargestShareOfAnOwnerCounts(t *testing.T) {
	t.Parallel()
	s := clusterOf(t, "pool p", "pod a owner=StatefulSet/db on-demand-share=1", "pod b owner=StatefulSet/db on-demand-share=oops", "pod c owner=StatefulSet/db on-demand-share=100%", "pod d owner=StatefulSet/other")
	marked, notes := ondemand.Marked(s, &ondemand.Copies{})
	if got := markedNames(marked); got != "a b c" || len(notes) != 1 {
		t.Errorf("%q, %v", got, notes)
	}
}

// Callers identify pods by their addresses, so a copy stays the same object while nothing changes.
func TestCopiesStayTheSame(t *testing.T) {
	t.Parallel()
	s, known := clusterOf(t, "pool p", "pods web x3 owner=Deployment on-demand-share=1"), &ondemand.Copies{}
	first, _ := ondemand.Marked(s, known)
	again, _ := ondemand.Marked(s, known)
	if first.Pods[0] != again.Pods[0] || first.Pods[1] != s.Pods[1] {
		t.Error("the copy is another one, or a pod was copied that is not marked")
	}
	plain := clusterOf(t, "pool p", "pods web x3 owner=Deployment")
	if same, notes := ondemand.Marked(plain, known); same != plain || notes != nil {
		t.Error("a snapshot in which nobody asks is not itself")
	}
}

func TestWhatASharesPodsAreTold(t *testing.T) {
	t.Parallel()
	s := clusterOf(t, "pool p capacity in (spot,on-demand)", "type t cpu=8 mem=16Gi price=0.4 spot=0.1", "node od pool=p type=t zone=a capacity=on-demand",
		"pod runs node=od owner=Deployment/web on-demand-share=50%", "pod waits age=9m owner=Deployment/web on-demand-share=50%", "pod free owner=Deployment/web on-demand-share=50%",
		"pod odd-1 owner=Deployment/odd on-demand-share=half", "pod odd-2 owner=Deployment/odd on-demand-share=half", "pod alone on-demand-share=1", "pod plain owner=Deployment/plain")
	for name, want := range map[string]string{
		"runs":  "at least 2 of the 3 pods of ReplicaSet default/web have to run on demand, 1 so far; this one counts, and moves to no spot machine",
		"waits": "at least 2 of the 3 pods of ReplicaSet default/web have to run on demand, 1 so far; this one has to. kube-scheduler does not know that",
		"free":  "this one may run anywhere",
		"odd-1": `annotation tenon.sh/on-demand-share is "half", want`,
		"odd-2": `annotation tenon.sh/on-demand-share is "half", want`,
		"alone": "it has no effect here",
	} {
		if got := ondemand.Sentence(s, podNamed(s, name)); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := ondemand.Sentence(s, podNamed(s, "plain")); got != "" {
		t.Errorf("a pod that asks for nothing is told %q", got)
	}
}

func podNamed(s *engine.Snapshot, name string) *corev1.Pod {
	for _, pod := range s.Pods {
		if pod.Name == name {
			return pod
		}
	}
	return nil
}

// If many pods of a DaemonSet, or many pods without an owner, request a share without an effect, there is a single note for all of them.
func TestNotesOfSharesAreOnceForEachOwner(t *testing.T) {
	t.Parallel()
	s := clusterOf(t, "pool p", "pods agent x5 owner=DaemonSet/agent on-demand-share=1", "pods alone x5 on-demand-share=1")
	if _, notes := ondemand.Marked(s, &ondemand.Copies{}); len(notes) != 2 {
		t.Errorf("%d notes, want 2: %v", len(notes), notes)
	}
}
