package cluster

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/engine"
)

// Cluster Autoscaler says of each pod that it starts nodes for it, in an event of this reason: it leaves no other mark on the pod.
const (
	scaleUpReason   = "TriggeredScaleUp"
	scaleUpSource   = "cluster-autoscaler"
	scaleUpPatience = 5 * time.Second // for the first list, before anything is planned
	scaleUpSilence  = time.Minute     // between two complaints
)

// ScaleUps hears what Cluster Autoscaler says of pods. It has the API server send the events of one reason only, and keeps of each
// who it is about, which groups grow and since when; the API server forgets events within an hour, unless it was told otherwise.
type ScaleUps struct {
	events toolscache.SharedIndexInformer
	grace  time.Duration
}

// NewScaleUps returns one that believes Cluster Autoscaler for so long after it has first said that it serves a pod.
func NewScaleUps(config *rest.Config, grace time.Duration) (*ScaleUps, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return ScaleUpsFrom(toolscache.NewListWatchFromClient(client.CoreV1().RESTClient(), "events", metav1.NamespaceAll,
		fields.OneTermEqualSelector("reason", scaleUpReason)), grace), nil
}

// ScaleUpsFrom is NewScaleUps with events from somewhere else.
func ScaleUpsFrom(events toolscache.ListerWatcher, grace time.Duration) *ScaleUps {
	s := &ScaleUps{toolscache.NewSharedIndexInformer(events, &corev1.Event{}, 0, toolscache.Indexers{}), grace}
	_ = s.events.SetTransform(slim(slimScaleUp)) // it has not begun, which is all that could be wrong
	return s
}

// Listen listens until ctx ends. It returns when it has heard what was said before, or does not get to hear it: then nothing is
// believed, and pods are planned for as if nobody else were there.
func (s *ScaleUps) Listen(ctx context.Context, now clock.PassiveClock) {
	patience, heard := context.WithTimeout(ctx, scaleUpPatience)
	defer heard()
	var said time.Time // is read and written by the one goroutine that lists and watches
	_ = s.events.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *toolscache.Reflector, err error) {
		defer heard()
		if now.Since(said) < scaleUpSilence {
			return
		}
		said = now.Now()
		log.FromContext(ctx).Info("cannot hear for which pods Cluster Autoscaler starts nodes: they get machines here as well; "+
			"the controller needs the rights to list and watch events, which the chart grants with settings.clusterAutoscalerGrace", "error", err.Error())
	})
	go s.events.RunWithContext(ctx)
	toolscache.WaitForCacheSync(patience.Done(), s.events.HasSynced)
}

// of is what is believed of these pods, in order of pod and group.
func (s *ScaleUps) of(pods []*corev1.Pod) []engine.ScaleUp {
	if s == nil {
		return nil
	}
	events := s.events.GetStore().List()
	if len(events) == 0 {
		return nil
	}
	waiting := map[types.UID]bool{}
	for _, p := range pods {
		if p.Spec.NodeName == "" {
			waiting[p.UID] = true
		}
	}
	var out []engine.ScaleUp
	for _, o := range events {
		e, ok := o.(*corev1.Event)
		if !ok || !waiting[e.InvolvedObject.UID] || e.Source.Component != scaleUpSource {
			continue
		}
		// When the API server first heard of it: no clock but its own counts, and no repeat. What is over is told as well: who has
		// failed a pod once is not believed again.
		out = append(out, engine.ScaleUp{Pod: string(e.InvolvedObject.UID), Group: e.Message, Until: e.CreationTimestamp.Add(s.grace).UTC()})
	}
	slices.SortFunc(out, func(a, b engine.ScaleUp) int {
		return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Group, b.Group), a.Until.Compare(b.Until))
	})
	return out
}

// slimScaleUp keeps of an event whom it is about, who says it, when, and, as its message, which groups grow.
func slimScaleUp(e *corev1.Event) {
	component := e.Source.Component
	if component == "" {
		component = e.ReportingController
	}
	*e = corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.Namespace, Name: e.Name, UID: e.UID, ResourceVersion: e.ResourceVersion, CreationTimestamp: e.CreationTimestamp,
		},
		InvolvedObject: corev1.ObjectReference{UID: e.InvolvedObject.UID},
		Source:         corev1.EventSource{Component: component},
		Message:        groupsIn(e.Message),
	}
}

// growing finds a group's name in "pod triggered scale-up: [{blue 1->3 (max: 10)}]".
var growing = regexp.MustCompile(`\{(\S+) \d+->\d+`)

// mostGroups bounds how many groups are named.
const mostGroups = 3

// groupsIn are the names of the groups that a message says grow.
func groupsIn(message string) string {
	var names []string
	for _, match := range growing.FindAllStringSubmatch(message, -1) {
		names = append(names, match[1])
	}
	if len(names) == 0 {
		return "of unknown name"
	}
	return strings.ToValidUTF8(engine.AtMost(names, mostGroups), "")
}
