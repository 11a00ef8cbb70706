package aws

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/aws/machine"
	"tenon.sh/provider/aws/notice"
	"tenon.sh/provider/batch"
)

const (
	// queueEvery is how long after a look at the queue the next one begins: a look waits for messages.
	queueEvery = 100 * time.Millisecond
	// openFor is how long a message is kept that was not acted on: by then the queue has handed it out again, or dropped it.
	openFor = 10 * time.Minute
	// heldFor is how long a message waits for a claim to name its machine: the time that a spot machine has.
	heldFor = 2 * time.Minute
)

var _ provider.Hearer = &Provider{}

// Sources are the queue of interruptions, if there is one, and what EC2 is asked now and then.
func (p *Provider) Sources() []provider.Source {
	sources := []provider.Source{{Name: "health", Notifier: p.health, Every: healthEvery}}
	if p.queue != nil {
		sources = append(sources, provider.Source{Name: "queue", Notifier: p.queue, Every: queueEvery})
	}
	return sources
}

// queueSource is what was read from the queue and has not been acted on.
type queueSource struct {
	*Provider
	queue   *notice.Queue
	deletes *batch.Batcher[notice.Message, struct{}]

	mu sync.Mutex // guards messages
	// messages are those of the queue by ID, with the machines that they are still open for.
	messages map[string]*openMessage
}

type openMessage struct {
	notice.Message
	open map[string]bool
	// first is when the message was read for the first time, read when it was the last time.
	first, read time.Time
}

func newQueueSource(p *Provider, queue *notice.Queue) *queueSource {
	return &queueSource{
		Provider: p, queue: queue, messages: map[string]*openMessage{},
		deletes: batch.New(batch.Config[notice.Message, struct{}]{
			Window: batch.Window{Idle: 20 * time.Millisecond, Most: 200 * time.Millisecond, Items: 10},
			Call: func(ctx context.Context, _ string, in []notice.Message) []batch.Result[struct{}] {
				err := queue.Delete(ctx, in)
				out := make([]batch.Result[struct{}], len(in))
				for i := range out {
					out[i].Err = err
				}
				return out
			},
		}),
	}
}

// Notices reads the queue. One without messages is listened to for a while.
func (m *queueSource) Notices(ctx context.Context) ([]provider.Notice, error) {
	messages, err := m.queue.Messages(ctx)
	if err != nil || len(messages) == 0 {
		return nil, err
	}
	list, err := m.claims(ctx)
	if err != nil {
		return nil, err
	}
	claims := byMachine(list)
	early := m.early(ctx, messages, list, claims)
	var out []provider.Notice
	for _, message := range messages {
		out = append(out, m.take(message, claims, early)...)
		for _, id := range message.Instances {
			m.heed(message.Kind, claims[id])
		}
	}
	return out, nil
}

// early are those machines of messages that a claim is about to name: the call that started them has not been written down,
// or may have started them. EC2 is asked only while there is such a claim; a machine that it does not show is taken for one.
func (m *queueSource) early(ctx context.Context, messages []notice.Message, list []v1.NodeClaim, claims map[string]*v1.NodeClaim) map[string]bool {
	tokens := map[string]bool{}
	for i := range list {
		c := &list[i]
		token := cmp.Or(m.ledger.token(c.UID), c.Annotations[v1.LaunchTokenAnnotationKey])
		if c.Status.ProviderID == "" && token != "" && c.DeletionTimestamp == nil {
			tokens[token] = true
		}
	}
	if len(tokens) == 0 {
		return nil
	}
	var unknown []string
	for _, message := range messages {
		for _, id := range message.Instances {
			if claims[id] == nil {
				unknown = append(unknown, id)
			}
		}
	}
	shown, err := m.machines.Shown(ctx, unknown)
	if err != nil {
		log.FromContext(ctx).Error(err, "whose machines messages are about is not known: they stay on the queue for now")
	}
	out := map[string]bool{}
	for _, id := range unknown {
		machine, known := shown[id]
		out[id] = !known || tokens[machine.Tags[v1.LaunchTokenAnnotationKey]]
	}
	return out
}

// take keeps a message until everything that it says has been acted on. What it says of machines that no claim names yet
// is kept back: the queue hands the message out again, but not for long.
func (m *queueSource) take(message notice.Message, claims map[string]*v1.NodeClaim, early map[string]bool) (out []provider.Notice) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	for id, o := range m.messages {
		if now.Sub(o.read) > openFor {
			delete(m.messages, id)
		}
	}
	first := now
	if o := m.messages[message.ID]; o != nil {
		first = o.first
	}
	waits := now.Sub(first) < heldFor
	open, given := map[string]bool{}, false
	for _, id := range message.Instances {
		if open[id] {
			continue
		}
		open[id] = true
		given = given || early[id] && !waits
		if !early[id] || !waits {
			out = append(out, provider.Notice{ID: message.ID + "/" + id, Machine: machineID(id, claims), Kind: message.Kind})
		}
	}
	if given {
		m.metrics.unclaimed.WithLabelValues().Inc()
	}
	m.messages[message.ID] = &openMessage{message, open, first, now} // one that comes again has a new handle
	return out
}

// Acknowledge takes a message off the queue once all that it says has been acted on.
func (m *queueSource) Acknowledge(ctx context.Context, n provider.Notice) error {
	message, done := m.close(n.ID)
	if !done {
		return nil
	}
	_, err := m.deletes.Do(ctx, "", message, nil)
	return err
}

// close notes that a notice was acted on, and returns its message if it was the last.
func (m *queueSource) close(noticeID string) (notice.Message, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	messageID, id, _ := strings.Cut(noticeID, "/")
	o := m.messages[messageID]
	if o == nil {
		return notice.Message{}, false
	}
	delete(o.open, id)
	if len(o.open) > 0 {
		return notice.Message{}, false
	}
	delete(m.messages, messageID)
	return o.Message, true
}

// heed keeps in mind what a notice says of capacity.
func (p *Provider) heed(kind string, claim *v1.NodeClaim) {
	if claim == nil {
		return
	}
	switch kind {
	case engine.NoticeSpotInterruption:
		p.marks.Offering(engine.OfferingID{
			InstanceType: claim.Labels[corev1.LabelInstanceTypeStable], Zone: claim.Labels[corev1.LabelTopologyZone], CapacityType: v1.CapacityTypeSpot,
		}, "", "", "SpotInterruption")
	case engine.NoticeReservationInterruption:
		if id := claim.Labels[awsv1.ReservationIDLabelKey]; id != "" {
			p.finder.Slots.Exhausted(id)
		}
	}
}

// claims lists the claims. They belong to the cache: nobody changes them.
func (p *Provider) claims(ctx context.Context) ([]v1.NodeClaim, error) {
	var claims v1.NodeClaimList
	if err := p.client.List(ctx, &claims, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list NodeClaims, to see whose machines notices are about: %w", err)
	}
	return claims.Items, nil
}

// byMachine finds claims by the names of their machines, i-….
func byMachine(claims []v1.NodeClaim) map[string]*v1.NodeClaim {
	out := map[string]*v1.NodeClaim{}
	for i := range claims {
		if _, id, ok := machine.ParseID(engine.MachineID(claims[i].Status.ProviderID)); ok {
			out[id] = &claims[i]
		}
	}
	return out
}

// machineID is how the claim calls its machine; of one that belongs to no claim, what AWS calls it.
func machineID(id string, claims map[string]*v1.NodeClaim) engine.MachineID {
	if c := claims[id]; c != nil {
		return engine.MachineID(c.Status.ProviderID)
	}
	return engine.MachineID(id)
}
