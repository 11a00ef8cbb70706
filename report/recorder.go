package report

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/api/autoscalingv1"
	"tenon.sh/engine"
)

const (
	component      = "karpenter" // the name that dashboards and filters of kubectl use
	quietByDefault = 2 * time.Minute
	queuedEvents   = 1000
	longestMessage = 1024 // the API server refuses longer ones
)

// Event is one message about one object.
type Event struct {
	Object  client.Object
	Warning bool
	Reason  string
	Message string
	// Key distinguishes events of one reason about one object.
	Key string
	// Every is how long repeats of the same event are held back; 0 means two minutes, a negative value no time at all.
	Every time.Duration
}

// A Recorder writes events. It holds repeats back and limits the number of the other events, so no state of the cluster floods the API server. An
// event that the limit holds back may be written the next time.
type Recorder struct {
	writer client.Client
	clock  clock.PassiveClock

	mu      sync.Mutex // guards the fields below
	told    map[string]*telling
	limits  map[string]*rate.Limiter
	all     *rate.Limiter
	queue   []*telling
	wake    chan struct{}
	dropped int
	serial  int64     // distinguishes events of one instant
	swept   time.Time // when old events were last forgotten
	refused bool      // the log says that events may not be written
}

// telling is one event, and the number of times that it was published.
type telling struct {
	until time.Time
	event corev1.Event
	sent  bool // the event exists in the API server
}

// NewRecorder returns a Recorder that writes with the given client. Events are written by Start or Flush.
func NewRecorder(writer client.Client, clock clock.PassiveClock) *Recorder {
	return &Recorder{
		writer: writer,
		clock:  clock,
		told:   map[string]*telling{},
		limits: map[string]*rate.Limiter{
			Nominated:                        rate.NewLimiter(5, 10),
			FailedScheduling:                 rate.NewLimiter(20, 20),
			string(engine.GangIncomplete):    rate.NewLimiter(5, 20),
			string(engine.GangTooSmall):      rate.NewLimiter(5, 20),
			GangStarting:                     rate.NewLimiter(5, 20),
			autoscalingv1.Accepted:           rate.NewLimiter(5, 20),
			autoscalingv1.CapacityIsNotFound: rate.NewLimiter(5, 20),
			InsufficientCapacityError:        rate.NewLimiter(5, 10),
			LaunchFailed:                     rate.NewLimiter(5, 10),
			Unconsolidatable:                 rate.NewLimiter(2, 20), // in a large cluster only some nodes get this event at a time
			ConsolidationCandidate:           rate.NewLimiter(5, 20),
			ConsolidationApproved:            rate.NewLimiter(5, 20),
			ConsolidationRejected:            rate.NewLimiter(5, 20),
			DoNotDisruptUntil:                rate.NewLimiter(2, 20),
			DoNotDisruptElapsed:              rate.NewLimiter(5, 20),
		},
		all:  rate.NewLimiter(50, 200),
		wake: make(chan struct{}, 1),
	}
}

// Publish queues events. It never waits and never fails, because nothing depends on events.
func (r *Recorder) Publish(events ...Event) {
	for _, e := range events {
		r.publish(e)
	}
	r.rouse()
}

// Offer queues one event like Publish, and reports whether the Recorder will write it. The Recorder skips an event that it wrote lately, or
// that the limits hold back.
func (r *Recorder) Offer(e Event) bool {
	told := r.publish(e)
	if told {
		r.rouse()
	}
	return told
}

// room returns how many events of this reason the limits let through now.
func (r *Recorder) room(reason string, now time.Time) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.all.TokensAt(now)
	if l := r.limits[reason]; l != nil {
		n = min(n, l.TokensAt(now))
	}
	return max(0, min(int(n), queuedEvents-len(r.queue)))
}

func (r *Recorder) rouse() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *Recorder) publish(e Event) bool {
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	key := strings.Join([]string{strings.ToLower(e.Reason), identity(e.Object), e.Key}, "\x00")
	t := r.told[key]
	if t != nil && now.Before(t.until) {
		return false
	}
	if len(r.queue) >= queuedEvents {
		r.dropped++
		return false
	}
	if l := r.limits[e.Reason]; l != nil && !l.AllowN(now, 1) {
		return false
	}
	if !r.all.AllowN(now, 1) {
		return false
	}
	if t == nil || t.event.Message != cut(e.Message) {
		r.serial++
		fresh, err := r.render(e, now)
		if err != nil {
			return false
		}
		t = &telling{event: fresh}
	}
	t.event.Count++
	t.event.LastTimestamp = metav1.NewTime(now)
	t.until = now.Add(quiet(e.Every))
	r.forget(now)
	r.told[key] = t
	r.queue = append(r.queue, t)
	return true
}

func quiet(every time.Duration) time.Duration {
	if every == 0 {
		return quietByDefault
	}
	return max(every, 0)
}

// identity returns the UID of an object, or its name if a test or a dry run gave it no UID.
func identity(o client.Object) string {
	if uid := o.GetUID(); uid != "" {
		return string(uid)
	}
	return fmt.Sprintf("%T %s/%s", o, o.GetNamespace(), o.GetName())
}

// remembered is how long the Recorder remembers an event after the time in which it holds repeats back, because a remembered event that
// comes back is counted up instead of written anew.
const remembered = 10 * time.Minute

// forget drops, once a minute, the events that were published long enough ago.
func (r *Recorder) forget(now time.Time) {
	if now.Sub(r.swept) < time.Minute {
		return
	}
	r.swept = now
	for key, t := range r.told {
		if now.After(t.until.Add(remembered)) {
			delete(r.told, key)
		}
	}
}

func (r *Recorder) render(e Event, now time.Time) (corev1.Event, error) {
	gvk, err := apiutil.GVKForObject(e.Object, r.writer.Scheme())
	if err != nil {
		return corev1.Event{}, fmt.Errorf("event %s about %T: %w", e.Reason, e.Object, err)
	}
	if own := e.Object.GetObjectKind().GroupVersionKind(); own.GroupKind() == gvk.GroupKind() && own.Version != "" {
		gvk = own // read in another version than the program's own
	}
	namespace := e.Object.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	kind := corev1.EventTypeNormal
	if e.Warning {
		kind = corev1.EventTypeWarning
	}
	return corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace,
			Name:      fmt.Sprintf("%s.%x", e.Object.GetName(), now.UnixNano()+r.serial),
		},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: gvk.GroupVersion().String(),
			Kind:       gvk.Kind,
			Namespace:  e.Object.GetNamespace(),
			Name:       e.Object.GetName(),
			UID:        e.Object.GetUID(),
		},
		Type:                kind,
		Reason:              e.Reason,
		Message:             cut(e.Message),
		Source:              corev1.EventSource{Component: component},
		ReportingController: component,
		FirstTimestamp:      metav1.NewTime(now),
	}, nil
}

func cut(message string) string {
	if len(message) <= longestMessage {
		return message
	}
	return strings.ToValidUTF8(message[:longestMessage-3], "") + "..."
}

// Start writes events until ctx ends, and then the events in the queue.
func (r *Recorder) Start(ctx context.Context) error {
	for {
		r.Flush(ctx)
		select {
		case <-r.wake:
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			defer cancel()
			r.Flush(last)
			return nil
		}
	}
}

// Flush writes the queued events.
func (r *Recorder) Flush(ctx context.Context) {
	r.mu.Lock()
	queue, dropped := r.queue, r.dropped
	r.queue, r.dropped = nil, 0
	r.mu.Unlock()
	if dropped > 0 {
		log.FromContext(ctx).Info("dropped events, the API server takes them too slowly", "count", dropped)
	}
	for _, t := range queue {
		if ctx.Err() != nil {
			return
		}
		err := r.write(ctx, t)
		switch {
		case apierrors.IsForbidden(err):
			r.tellForbidden(ctx, t, err)
		case err != nil:
			log.FromContext(ctx).V(1).Info("could not write event", "reason", t.event.Reason, "error", err.Error())
		}
	}
}

// tellForbidden logs once that events may not be written, because people get none of them.
func (r *Recorder) tellForbidden(ctx context.Context, t *telling, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused {
		return
	}
	r.refused = true
	log.FromContext(ctx).Error(err, "may not write events, so nobody is told by them why pods wait and nodes go: grant create and patch of events "+
		"as the manifests do, tenon doctor names what is missing; this is said once", "namespace", t.event.Namespace, "reason", t.event.Reason)
}

// write counts up an existing event, so a repeated event stays one line for the reader.
func (r *Recorder) write(ctx context.Context, t *telling) error {
	r.mu.Lock()
	event := *t.event.DeepCopy()
	sent := t.sent
	r.mu.Unlock()
	if sent {
		patch := fmt.Sprintf(`{"count":%d,"lastTimestamp":%q}`, event.Count, event.LastTimestamp.UTC().Format(time.RFC3339))
		err := r.writer.Patch(ctx, &event, client.RawPatch("application/merge-patch+json", []byte(patch)))
		if !apierrors.IsNotFound(err) {
			return err
		}
		event.ResourceVersion, event.UID = "", ""
	}
	if err := r.writer.Create(ctx, &event); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	r.mu.Lock()
	t.sent = true
	r.mu.Unlock()
	return nil
}
