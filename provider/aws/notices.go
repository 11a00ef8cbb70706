package aws

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/aws/batch"
	"tenon.sh/provider/aws/machine"
	"tenon.sh/provider/aws/notice"
)

const (
	// mailEvery is how long after a look at the queue the next one begins: a look waits for messages.
	mailEvery = 100 * time.Millisecond
	// openFor is how long a message is kept that was not acted on: by then the queue has handed it out again, or dropped it.
	openFor = 10 * time.Minute
)

var _ provider.Hearer = &Provider{}

// Sources are the queue of interruptions, if there is one, and what EC2 is asked now and then.
func (p *Provider) Sources() []provider.Source {
	sources := []provider.Source{{Name: "health", Notifier: p.health, Every: healthEvery}}
	if p.mail != nil {
		sources = append(sources, provider.Source{Name: "queue", Notifier: p.mail, Every: mailEvery})
	}
	return sources
}

// mail is what was read from the queue and has not been acted on.
type mail struct {
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
	read time.Time
}

func newMail(p *Provider, queue *notice.Queue) *mail {
	return &mail{
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
func (m *mail) Notices(ctx context.Context) ([]provider.Notice, error) {
	messages, err := m.queue.Messages(ctx)
	if err != nil || len(messages) == 0 {
		return nil, err
	}
	claims, err := m.claimsByMachine(ctx)
	if err != nil {
		return nil, err
	}
	var out []provider.Notice
	for _, message := range messages {
		out = append(out, m.take(message, claims)...)
		for _, id := range message.Instances {
			m.heed(message.Kind, claims[id])
		}
	}
	return out, nil
}

// take keeps a message until everything that it says has been acted on.
func (m *mail) take(message notice.Message, claims map[string]*v1.NodeClaim) (out []provider.Notice) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	for id, o := range m.messages {
		if now.Sub(o.read) > openFor {
			delete(m.messages, id)
		}
	}
	open := map[string]bool{}
	for _, id := range message.Instances {
		if !open[id] {
			open[id] = true
			out = append(out, provider.Notice{ID: message.ID + "/" + id, Machine: machineID(id, claims), Kind: message.Kind})
		}
	}
	m.messages[message.ID] = &openMessage{message, open, now} // one that comes again has a new handle
	return out
}

// Acknowledge takes a message off the queue once all that it says has been acted on.
func (m *mail) Acknowledge(ctx context.Context, n provider.Notice) error {
	message, done := m.close(n.ID)
	if !done {
		return nil
	}
	_, err := m.deletes.Do(ctx, "", message, nil)
	return err
}

// close notes that a notice was acted on, and returns its message if it was the last.
func (m *mail) close(noticeID string) (notice.Message, bool) {
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

// claimsByMachine finds claims by the names of their machines, i-…. They belong to the cache: nobody changes them.
func (p *Provider) claimsByMachine(ctx context.Context) (map[string]*v1.NodeClaim, error) {
	var claims v1.NodeClaimList
	if err := p.client.List(ctx, &claims, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list NodeClaims, to see whose machines notices are about: %w", err)
	}
	out := map[string]*v1.NodeClaim{}
	for i := range claims.Items {
		if _, id, ok := machine.ParseID(engine.MachineID(claims.Items[i].Status.ProviderID)); ok {
			out[id] = &claims.Items[i]
		}
	}
	return out, nil
}

// machineID is how the claim calls its machine; of one that belongs to no claim, what AWS calls it.
func machineID(id string, claims map[string]*v1.NodeClaim) engine.MachineID {
	if c := claims[id]; c != nil {
		return engine.MachineID(c.Status.ProviderID)
	}
	return engine.MachineID(id)
}
