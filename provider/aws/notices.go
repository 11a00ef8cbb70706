package aws

import (
	"context"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/aws/batch"
	"tenon.sh/provider/aws/cloud"
	"tenon.sh/provider/aws/machine"
	"tenon.sh/provider/aws/notice"
)

var _ provider.Notifier = &Provider{}

// statusEvery is how often EC2 is asked for machines that it finds broken.
const statusEvery = time.Minute

// statusPrefix begins the names of notices that come from EC2's checks, not from the queue.
const statusPrefix = "status/"

// inbox holds what was heard and has not been acted on.
type inbox struct {
	mu sync.Mutex // guards what follows
	// messages are those of the queue by ID, with the machines that they are still open for.
	messages map[string]*openMessage
	// ailing are the ailments that EC2 reports; true once one has been acted on.
	ailing map[notice.Ailment]bool
	asked  time.Time
	denied bool // EC2's checks may not be read

	deletes *batch.Batcher[notice.Message, struct{}]
}

type openMessage struct {
	notice.Message
	open map[string]bool
}

func newInbox(queue *notice.Queue) *inbox {
	return &inbox{
		messages: map[string]*openMessage{}, ailing: map[notice.Ailment]bool{},
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

// Notices reads the queue of interruptions and EC2's own checks. What the cluster is being moved out of is looked at in
// passing. A queue without messages is listened to for a while.
func (p *Provider) Notices(ctx context.Context) ([]provider.Notice, error) {
	if err := p.lookForShifts(ctx); err != nil {
		log.FromContext(ctx).Error(err, "what was known of zonal shifts holds")
	}
	if err := p.lookForAilments(ctx); err != nil {
		log.FromContext(ctx).Error(err, "the status of machines is not known")
	}
	claims, err := p.claimsByMachine(ctx)
	if err != nil {
		return nil, err
	}
	out := p.inbox.ailments(claims)
	if p.queue == nil {
		return out, nil
	}
	messages, err := p.queue.Messages(ctx)
	if err != nil && len(out) == 0 {
		return nil, err
	}
	if len(messages) > 0 { // some may be about machines that were started while the queue was listened to
		if claims, err = p.claimsByMachine(ctx); err != nil {
			return nil, err
		}
	}
	for _, m := range messages {
		out = append(out, p.inbox.take(m, claims)...)
		for _, id := range m.Instances {
			p.heed(m.Kind, claims[id])
		}
	}
	return out, nil
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

// claimsByMachine finds claims by the names of their machines, i-….
func (p *Provider) claimsByMachine(ctx context.Context) (map[string]*v1.NodeClaim, error) {
	var claims v1.NodeClaimList
	if err := p.client.List(ctx, &claims); err != nil {
		return nil, err
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

// take keeps a message until everything that it says has been acted on.
func (b *inbox) take(m notice.Message, claims map[string]*v1.NodeClaim) (out []provider.Notice) {
	b.mu.Lock()
	defer b.mu.Unlock()
	open := map[string]bool{}
	for _, id := range m.Instances {
		if !open[id] {
			open[id] = true
			out = append(out, provider.Notice{ID: m.ID + "/" + id, Machine: machineID(id, claims), Kind: m.Kind})
		}
	}
	b.messages[m.ID] = &openMessage{m, open} // a message that comes again has a new handle
	return out
}

// ailments are those that nobody has acted on.
func (b *inbox) ailments(claims map[string]*v1.NodeClaim) (out []provider.Notice) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for a, done := range b.ailing {
		if done || claims[a.Instance] == nil {
			continue
		}
		kind := engine.NoticeStatusCheck
		if a.Category == notice.EventStatus {
			kind = engine.NoticeScheduledChange
		}
		out = append(out, provider.Notice{ID: statusPrefix + a.Instance + "/" + a.Category, Machine: machineID(a.Instance, claims), Kind: kind})
	}
	return out
}

// Acknowledge takes a message off the queue once all that it says has been acted on.
func (p *Provider) Acknowledge(ctx context.Context, n provider.Notice) error {
	if rest, isStatus := strings.CutPrefix(n.ID, statusPrefix); isStatus {
		id, category, _ := strings.Cut(rest, "/")
		p.inbox.mu.Lock()
		defer p.inbox.mu.Unlock()
		if a := (notice.Ailment{Instance: id, Category: category}); !p.inbox.ailing[a] {
			p.inbox.ailing[a] = true
		}
		return nil
	}
	m, done := p.inbox.close(n.ID)
	if !done {
		return nil
	}
	_, err := p.inbox.deletes.Do(ctx, "", m, nil)
	return err
}

// close notes that a notice was acted on, and returns its message if it was the last.
func (b *inbox) close(noticeID string) (notice.Message, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	messageID, id, _ := strings.Cut(noticeID, "/")
	m := b.messages[messageID]
	if m == nil {
		return notice.Message{}, false
	}
	delete(m.open, id)
	if len(m.open) > 0 {
		return notice.Message{}, false
	}
	delete(b.messages, messageID)
	return m.Message, true
}

// lookForAilments asks EC2 for machines that it finds broken. If that is not allowed it is not asked again.
func (p *Provider) lookForAilments(ctx context.Context) error {
	b := p.inbox
	b.mu.Lock()
	due := !b.denied && (b.asked.IsZero() || p.clock.Since(b.asked) >= statusEvery)
	if due {
		b.asked = p.clock.Now()
	}
	b.mu.Unlock()
	if !due {
		return nil
	}
	found, err := notice.Ailing(ctx, p.cloud, p.clock)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.denied = cloud.Denied(err)
		return err
	}
	still := map[notice.Ailment]bool{}
	for _, a := range found {
		done, known := b.ailing[a]
		still[a] = done
		if !known {
			p.metrics.unhealthy.WithLabelValues(a.Category).Inc()
		}
	}
	b.ailing = still
	return nil
}

// counter counts messages.
type counter struct{ *metrics }

// Received counts a message that was read.
func (c counter) Received(kind string, waited time.Duration) {
	c.received.WithLabelValues(kind).Inc()
	if waited > 0 {
		c.queued.Observe(waited.Seconds())
	}
}

// Deleted counts a message that was taken off the queue.
func (c counter) Deleted() { c.deleted.Inc() }
