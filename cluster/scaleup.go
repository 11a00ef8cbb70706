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

// Cluster Autoscaler makes an event of this reason on each pod for which it starts nodes. It leaves no other mark on the pod.
const (
	scaleUpReason   = "TriggeredScaleUp"
	scaleUpSource   = "cluster-autoscaler"
	scaleUpPatience = 5 * time.Second // for the first list, before anything is planned
	scaleUpSilence  = time.Minute     // between two complaints
)

// ScaleUps reads the events of Cluster Autoscaler about pods. The API server sends only events of one reason. Of each, ScaleUps keeps
// the pod, the growing groups and the time. The API server deletes events after an hour, unless it is configured otherwise.
type ScaleUps struct {
	events toolscache.SharedIndexInformer
	grace  time.Duration
}

// NewScaleUps returns a ScaleUps that waits for Cluster Autoscaler for the time grace after its first event about a pod.
func NewScaleUps(config *rest.Config, grace time.Duration) (*ScaleUps, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return ScaleUpsFrom(toolscache.NewListWatchFromClient(client.CoreV1().RESTClient(), "events", metav1.NamespaceAll,
		fields.OneTermEqualSelector("reason", scaleUpReason)), grace), nil
}

// ScaleUpsFrom is NewScaleUps with events from another source.
func ScaleUpsFrom(events toolscache.ListerWatcher, grace time.Duration) *ScaleUps {
	s := &ScaleUps{toolscache.NewSharedIndexInformer(events, &corev1.Event{}, 0, toolscache.Indexers{}), grace}
	_ = s.events.SetTransform(slim(slimScaleUp)) // it fails only after the informer has started
	return s
}

// Listen reads events until ctx ends. It returns once it has the earlier events, or if it cannot get them. In the latter case no event counts,
// and pods are planned as if there were no Cluster Autoscaler.
func (s *ScaleUps) Listen(ctx context.Context, now clock.PassiveClock) {
	patience, heard := context.WithTimeout(ctx, scaleUpPatience)
	defer heard()
	var said time.Time // used only by the goroutine that lists and watches
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

// of returns the scale-ups of Cluster Autoscaler for the pods without a node, in order of pod and group.
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
		// The creation time is by the API server's clock; repeats do not count. Scale-ups that are over are returned too, because Tenon does not
		// wait again for a pod for which Cluster Autoscaler has failed.
		out = append(out, engine.ScaleUp{Pod: string(e.InvolvedObject.UID), Group: e.Message, Until: e.CreationTimestamp.Add(s.grace).UTC()})
	}
	slices.SortFunc(out, func(a, b engine.ScaleUp) int {
		return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Group, b.Group), a.Until.Compare(b.Until))
	})
	return out
}

// slimScaleUp keeps the object, the sender and the time of an event, and the growing groups as its message.
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

// mostGroups is the largest number of groups that are named.
const mostGroups = 3

// groupsIn returns the names of the growing groups in a message.
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
