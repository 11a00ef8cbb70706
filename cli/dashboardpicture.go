package cli

import (
	"bytes"
	"cmp"
	"runtime"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/dashboard"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/nomination"
	"tenon.sh/scenario"
)

// newPicture makes the dashboard's picture from a reading: the documents of the other commands, and their texts.
func newPicture(name string, reading *scenario.Reading) (*dashboard.Picture, error) {
	s, opt := reading.Snapshot, reading.Options
	opt.Threads = cmp.Or(opt.Threads, runtime.GOMAXPROCS(0))
	explainer := newExplainer(s, opt)
	p := &dashboard.Picture{Cluster: name, At: s.Now, Notes: reading.Notes, NodePools: slices.Sorted(slices.Values(namesOf(s.NodePools)))}

	priced, disrupts := s, explainer.disrupts()
	if reading.Made != nil { // without a class, these types have the prices, which only tenon nodes uses
		with := *s
		with.Classes = append(slices.Clip(s.Classes), engine.Class{InstanceTypes: reading.Made.InstanceTypes})
		priced, disrupts = &with, disruption.Plan(&with, opt, nil)
	}
	list := newNodeTable(priced, disrupts)
	list.order("pool")
	var text bytes.Buffer
	if err := writeRecord(&text, "Nodes", list); err != nil {
		return nil, err
	}
	p.Nodes = text.Bytes()

	plan := *explainer.plan()
	nomination.Foresee(s, opt, &plan)
	plan.Disruptions, plan.Kept = explainer.disrupts().Disruptions, explainer.disrupts().Kept
	var planText bytes.Buffer
	if err := newPlanDocument(&plan).writeJSON(&planText); err != nil {
		return nil, err
	}
	p.Plan = planText.Bytes()
	p.Pods = pagePods(s, &plan)
	p.Together = append(pageTogether(dashboard.KindGroup, s.PodGroups), pageTogether(dashboard.KindRequest, s.ProvisioningRequests)...)
	p.Namespaces, p.Buffers = namespaceCosts(s, list), pageBuffers(plan.Buffers)
	p.Manifests = manifests(s)
	p.Try = (&whatIf{snapshot: s, options: opt, ignored: reading.Ignored, now: list.PricePerHour, before: &plan}).try
	var one sync.Mutex // one explanation at a time leaves a core to others, because it may take as long as a plan
	p.Explain = func(kind dashboard.Kind, name string) (*dashboard.Explanation, error) {
		one.Lock()
		defer one.Unlock()
		return pageExplanation(explainer, kind, name)
	}
	return p, nil
}

func pageExplanation(e *explainer, kind dashboard.Kind, name string) (*dashboard.Explanation, error) {
	commandKind := map[dashboard.Kind]string{dashboard.KindPod: kindPod, dashboard.KindNode: kindNode, dashboard.KindClaim: kindNode, dashboard.KindPool: kindPool,
		dashboard.KindGroup: kindGroup, dashboard.KindRequest: kindRequest}
	x, err := e.explain(commandKind[kind], metav1.NamespaceDefault, name)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := writeRecord(&text, x.kind, x.record); err != nil {
		return nil, err
	}
	out := &dashboard.Explanation{Document: text.Bytes(), Story: pageStory(x.story)}
	if x.pod != nil {
		for _, r := range x.pod.Reasons {
			out.Reasons = append(out.Reasons, dashboard.Reason{Code: string(r.Code), NodePool: r.NodePool, Key: r.Key, Need: r.Need, Have: r.Have, Message: r.Message})
		}
	}
	return out, nil
}

func pageStory(s objectStory) dashboard.Story {
	out := dashboard.Story{Kind: s.kind, Name: s.name, Headline: s.headline}
	for _, p := range s.parts {
		part := dashboard.Part{Title: p.title, Alarming: p.alarming, Text: p.text, Rows: p.rows}
		for _, line := range p.lines {
			part.Lines = append(part.Lines, strings.TrimSpace(line))
		}
		for _, f := range p.facts {
			part.Facts = append(part.Facts, dashboard.Fact{Name: f.name, Text: f.text})
		}
		out.Parts = append(out.Parts, part)
	}
	return out
}

func pageTogether[T metav1.Object](kind dashboard.Kind, list []T) (out []dashboard.Together) {
	for _, o := range list {
		out = append(out, dashboard.Together{Kind: kind, Name: o.GetNamespace() + "/" + o.GetName()})
	}
	return out
}

// pagePods lists all pods, with the planned fate of waiting pods.
func pagePods(s *engine.Snapshot, plan *engine.Plan) []dashboard.Pod {
	fates := map[engine.PodID]dashboard.Waiting{}
	for i := range plan.Launches {
		for _, pod := range plan.Launches[i].Pods {
			fates[pod] = dashboard.Waiting{Fate: dashboard.Starts, On: plan.Launches[i].Name}
		}
	}
	for _, p := range plan.Placements {
		fates[p.Pod] = dashboard.Waiting{Fate: dashboard.Placed, On: cmp.Or(p.Node, p.Claim)}
	}
	for _, u := range plan.Unplaced {
		var why []string
		for _, r := range u.Reasons {
			why = append(why, r.String())
		}
		fates[u.Pod] = dashboard.Waiting{Fate: dashboard.Refused, Why: strings.Join(why, "\n")}
	}
	out := make([]dashboard.Pod, 0, len(s.Pods))
	for _, pod := range s.Pods {
		id := kube.PodID(pod)
		p := dashboard.Pod{Name: id.String(), Node: pod.Spec.NodeName}
		if p.Node == "" && kube.IsPending(pod) { // the pods that tenon nodes counts
			w, planned := fates[id]
			if !planned {
				w.Fate = dashboard.Unplanned
			}
			w.Owner, w.Asks, w.Since = ownerWords(pod), requestWords(quantities(kube.PodRequests(pod))), pod.CreationTimestamp.Time
			p.Waiting = &w
		}
		out = append(out, p)
	}
	return out
}

// ownerWords names the owner of a pod. It returns "" for a pod without one.
func ownerWords(pod *corev1.Pod) string {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return ""
	}
	return owner.Kind + " " + owner.Name
}
