package report

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/engine"
)

// refusalEvery is the time between two events for one pod, or one owner of pods, that nothing can run it.
const refusalEvery = 5 * time.Minute

// Refusals publishes events about pods that nothing can run. Each pod has its own event as long as the Recorder's limit for events of this reason
// allows it. The other pods share one event on their controller, with the number of these pods. Owners that the limit leaves out altogether come
// first the next time. Refusals forgets a pod at most refusalEvery after the pod's last refusal.
type Refusals struct {
	recorder *Recorder

	mu   sync.Mutex // guards told
	told map[types.UID]time.Time
}

// NewRefusals returns a Refusals that publishes through the recorder.
func NewRefusals(recorder *Recorder) *Refusals {
	return &Refusals{recorder: recorder, told: map[types.UID]time.Time{}}
}

// refusal is one refused pod.
type refusal struct {
	pod     *corev1.Pod
	reasons []engine.Reason
	last    time.Time // when it last had an event
}

// Tell publishes events about the pods that a plan refuses, except pods that are missing in pods.
func (r *Refusals) Tell(pods map[types.UID]*corev1.Pod, unplaced []engine.Unplaced) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.recorder.clock.Now()
	due, refused := r.due(pods, unplaced, now)
	if room := r.recorder.room(FailedScheduling, now); len(due) <= room {
		r.tellEach(due, now)
	} else {
		r.tellTogether(due, room, now)
	}
	for id, last := range r.told {
		if !refused[id] && now.Sub(last) >= refusalEvery {
			delete(r.told, id)
		}
	}
}

func (r *Refusals) tellEach(due []refusal, now time.Time) {
	for _, x := range due {
		if r.recorder.Offer(podRefused(x.pod, x.reasons)) {
			r.told[x.pod.UID] = now
		}
	}
}

// tellTogether makes one event for each owner without a recent event, and events of single pods as far as the limit allows.
func (r *Refusals) tellTogether(due []refusal, room int, now time.Time) {
	groups := r.groups(due)
	waiting := 0
	for i := range groups {
		if !r.recently(groups[i].id(), now) {
			waiting++
		}
	}
	r.tellEach(due[:min(len(due), max(0, room-waiting))], now)
	for i := range groups {
		g := &groups[i]
		g.pods = slices.DeleteFunc(g.pods, func(x refusal) bool { return r.told[x.pod.UID].Equal(now) })
		if len(g.pods) > 0 && !r.recently(g.id(), now) && r.recorder.Offer(g.event()) {
			r.told[g.id()] = now
		}
	}
}

// due returns the pods that need an event now, those with the oldest last event first, and the UIDs of all refused pods and of their owners.
func (r *Refusals) due(pods map[types.UID]*corev1.Pod, unplaced []engine.Unplaced, now time.Time) ([]refusal, map[types.UID]bool) {
	var due []refusal
	refused := make(map[types.UID]bool, len(unplaced))
	for _, u := range unplaced {
		pod := pods[u.Pod.UID]
		if pod == nil || leftAlone(u.Reasons) {
			continue
		}
		refused[pod.UID] = true
		if owner := metav1.GetControllerOf(pod); owner != nil {
			refused[owner.UID] = true
		}
		if !r.recently(pod.UID, now) {
			due = append(due, refusal{pod, u.Reasons, r.told[pod.UID]})
		}
	}
	slices.SortStableFunc(due, func(a, b refusal) int { return a.last.Compare(b.last) })
	return due, refused
}

// leftAlone reports whether the pod's spec excludes the nodes of all pools. Then an event about the pod would be of no use.
func leftAlone(reasons []engine.Reason) bool {
	return slices.ContainsFunc(reasons, func(r engine.Reason) bool { return r.Code == engine.NotOnManagedNodes })
}

func (r *Refusals) recently(id types.UID, now time.Time) bool {
	last, ok := r.told[id]
	return ok && now.Sub(last) < refusalEvery
}

// group holds the refused pods of one owner, or a single pod.
type group struct {
	owner *metav1.OwnerReference
	pods  []refusal
	last  time.Time // when the owner last had an event
}

// id returns the UID of the event's object.
func (g *group) id() types.UID {
	if g.owner != nil {
		return g.owner.UID
	}
	return g.pods[0].pod.UID
}

// groups groups the pods by the object that controls them. The groups with the oldest last event come first.
func (r *Refusals) groups(due []refusal) []group {
	var groups []group
	index := map[types.UID]int{}
	for _, x := range due {
		owner := metav1.GetControllerOfNoCopy(x.pod)
		if owner == nil {
			groups = append(groups, group{pods: []refusal{x}, last: x.last})
			continue
		}
		i, ok := index[owner.UID]
		if !ok {
			i = len(groups)
			index[owner.UID] = i
			groups = append(groups, group{owner: owner, last: r.told[owner.UID]})
		}
		groups[i].pods = append(groups[i].pods, x)
	}
	slices.SortStableFunc(groups, func(a, b group) int { return a.last.Compare(b.last) })
	return groups
}

// podRefused returns an event for a pod: why nothing can run it.
func podRefused(pod *corev1.Pod, reasons []engine.Reason) Event {
	return Event{
		Object: pod, Warning: true, Reason: FailedScheduling, Every: refusalEvery,
		Message: "Failed to schedule pod, " + engine.Sentence(reasons),
	}
}

// event returns one event for all pods of the owner, with the reasons of most of them.
func (g *group) event() Event {
	first := g.pods[0]
	if g.owner == nil {
		return podRefused(first.pod, first.reasons)
	}
	object := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: g.owner.APIVersion, Kind: g.owner.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: first.pod.Namespace, Name: g.owner.Name, UID: g.owner.UID},
	}
	sentence, others := commonest(g.pods)
	text := fmt.Sprintf("Failed to schedule %d pods, beside those with events of their own, %s", len(g.pods), sentence)
	if len(g.pods) == 1 {
		text = fmt.Sprintf("Failed to schedule pod %s, %s", first.pod.Name, sentence)
	}
	if others > 0 {
		text += fmt.Sprintf(" (%d of them for other reasons)", others)
	}
	return Event{Object: object, Warning: true, Reason: FailedScheduling, Every: refusalEvery, Message: text}
}

// commonest returns the sentence that applies to most of the pods, and the number of the other pods. Pods that share a list of reasons, as equal pods
// of one plan do, cost one sentence.
func commonest(pods []refusal) (sentence string, others int) {
	type list struct {
		first *engine.Reason
		n     int
	}
	lists := map[list]int{}
	counts := map[string]int{}
	reasons := map[list][]engine.Reason{}
	for _, x := range pods {
		var key list
		if len(x.reasons) > 0 {
			key = list{&x.reasons[0], len(x.reasons)}
		}
		lists[key]++
		reasons[key] = x.reasons
	}
	for key, n := range lists {
		counts[engine.Sentence(reasons[key])] += n
	}
	var texts []string
	for text := range counts {
		texts = append(texts, text)
	}
	slices.SortFunc(texts, func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	return texts[0], len(pods) - counts[texts[0]]
}
