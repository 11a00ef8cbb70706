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
	// queueEvery is the pause between two looks at the queue. It is short because a look waits for messages.
	queueEvery = 100 * time.Millisecond
	// openFor is the time for which a message is kept that was not acted on. By then the queue has returned the message again, or dropped it.
	openFor = 10 * time.Minute
	// heldFor is the time for which a notice waits for a claim to name its machine: as long as a spot machine has after its notice.
	heldFor = 2 * time.Minute
)

var _ provider.Hearer = &Provider{}

// Sources returns EC2's checks, and the interruption queue if there is one.
func (p *Provider) Sources() []provider.Source {
	sources := []provider.Source{{Name: "health", Notifier: p.health, Every: healthEvery}}
	if p.queue != nil {
		sources = append(sources, provider.Source{Name: "queue", Notifier: p.queue, Every: queueEvery})
	}
	return sources
}

// queueSource holds the messages of the queue that have not been acted on.
type queueSource struct {
	*Provider
	queue   *notice.Queue
	deletes *batch.Batcher[notice.Message, struct{}]

	mu sync.Mutex // guards messages
	// messages are the messages by ID, with the machines whose notices are not acknowledged.
	messages map[string]*openMessage
}

type openMessage struct {
	notice.Message
	open map[string]bool
	// first and read are the times at which the message was read first and last.
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

// Notices reads the queue. If the queue is empty, it waits for a message.
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

// early returns the machines in messages that a claim may name soon: machines of a running call, or of a call without an answer. It asks EC2
// only if there is a claim with a token and without a machine. A machine that EC2 does not show counts as early.
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

// take keeps a message until all its notices are acknowledged. It holds notices back for machines that no claim names yet, for at most
// heldFor; meanwhile the queue returns the message again.
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
	m.messages[message.ID] = &openMessage{message, open, first, now} // a message that comes again has a new handle
	return out
}

// Acknowledge deletes a message from the queue once all its notices are acknowledged.
func (m *queueSource) Acknowledge(ctx context.Context, n provider.Notice) error {
	message, done := m.close(n.ID)
	if !done {
		return nil
	}
	_, err := m.deletes.Do(ctx, "", message, nil)
	return err
}

// close removes a notice from its message, and returns the message if the notice was its last.
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

// heed records the shortage of capacity that follows from a notice.
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

// claims lists the claims. They belong to the cache and must not be changed.
func (p *Provider) claims(ctx context.Context) ([]v1.NodeClaim, error) {
	var claims v1.NodeClaimList
	if err := p.client.List(ctx, &claims, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list NodeClaims, to see whose machines notices are about: %w", err)
	}
	return claims.Items, nil
}

// byMachine maps the IDs of machines, i-…, to their claims.
func byMachine(claims []v1.NodeClaim) map[string]*v1.NodeClaim {
	out := map[string]*v1.NodeClaim{}
	for i := range claims {
		if _, id, ok := machine.ParseID(engine.MachineID(claims[i].Status.ProviderID)); ok {
			out[id] = &claims[i]
		}
	}
	return out
}

// machineID returns the machine's provider ID from its claim; for a machine without a claim, EC2's ID.
func machineID(id string, claims map[string]*v1.NodeClaim) engine.MachineID {
	if c := claims[id]; c != nil {
		return engine.MachineID(c.Status.ProviderID)
	}
	return engine.MachineID(id)
}
