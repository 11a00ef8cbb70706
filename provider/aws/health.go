package aws

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/aws/cloud"
	"tenon.sh/provider/aws/notice"
)

const (
	// healthEvery is how often it is looked whether there is anything to ask.
	healthEvery = 5 * time.Second
	// statusEvery is how often EC2 is asked for machines that it finds broken, deniedEvery the same if it may not be asked.
	statusEvery, deniedEvery = time.Minute, time.Hour
	// askPatience bounds one question: the next is not far.
	askPatience = 30 * time.Second
)

// statusPrefix and expiringPrefix begin the names of notices.
const statusPrefix, expiringPrefix = "status/", "expiring/"

// health is what EC2's own checks say of machines, and what becomes of reservations. What the cluster is being moved out
// of is looked at in passing.
type health struct {
	*Provider

	mu sync.Mutex // guards what follows
	// ailing are the ailments that EC2 reports; true once one has been acted on.
	ailing map[notice.Ailment]bool
	next   time.Time
}

// Notices asks EC2 what is due. What it does not answer stays as it was, and is asked again.
func (h *health) Notices(ctx context.Context) ([]provider.Notice, error) {
	asking, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	shifts := make(chan error, 1)
	go func() { shifts <- h.lookForShifts(asking) }()
	if err := h.lookForAilments(asking); err != nil {
		log.FromContext(ctx).Error(err, "whether machines are broken is not known")
	}
	if err := <-shifts; err != nil {
		log.FromContext(ctx).Error(err, "what was known of zonal shifts holds")
	}
	list, err := h.claims(ctx)
	if err != nil {
		return nil, err
	}
	claims := byMachine(list)
	expiring, err := h.expiring(ctx, claims)
	return append(h.ailments(claims), expiring...), err
}

// ailments are those that nobody has acted on.
func (h *health) ailments(claims map[string]*v1.NodeClaim) (out []provider.Notice) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for a, done := range h.ailing {
		if done || h.config.StatusDryRun || claims[a.Instance] == nil {
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

// Acknowledge notes that an ailment was acted on. Claims of reservations that end are acted on until they go.
func (h *health) Acknowledge(_ context.Context, n provider.Notice) error {
	rest, isStatus := strings.CutPrefix(n.ID, statusPrefix)
	if !isStatus {
		return nil
	}
	id, category, _ := strings.Cut(rest, "/")
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ailing[notice.Ailment{Instance: id, Category: category}] = true
	return nil
}

// lookForAilments asks EC2 for machines that it finds broken.
func (h *health) lookForAilments(ctx context.Context) error {
	h.mu.Lock()
	now := h.clock.Now()
	due := !now.Before(h.next)
	if due {
		h.next = now.Add(statusEvery)
	}
	h.mu.Unlock()
	if !due {
		return nil
	}
	found, err := notice.Ailing(ctx, h.cloud, h.clock)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		if cloud.Denied(err) {
			h.next = now.Add(deniedEvery)
		}
		return err
	}
	still := map[notice.Ailment]bool{}
	for _, a := range found {
		done, known := h.ailing[a]
		still[a] = done
		if !known {
			h.metrics.unhealthy.WithLabelValues(a.Category).Inc()
		}
	}
	h.ailing = still
	return nil
}

// expiring are notices for machines whose capacity block ends soon: EC2 takes them away then, without one of its own.
func (h *health) expiring(ctx context.Context, claims map[string]*v1.NodeClaim) (out []provider.Notice, err error) {
	var classes awsv1.EC2NodeClassList
	if err := h.client.List(ctx, &classes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list EC2NodeClasses, to see which reservations end: %w", err)
	}
	ends := map[string]bool{}
	for i := range classes.Items {
		for _, r := range classes.Items[i].Status.CapacityReservations {
			ends[r.ID] = ends[r.ID] || r.State == awsv1.ReservationExpiring
		}
	}
	for id, c := range claims {
		if ends[c.Labels[awsv1.ReservationIDLabelKey]] && c.DeletionTimestamp == nil {
			out = append(out, provider.Notice{ID: expiringPrefix + id, Machine: machineID(id, claims), Kind: engine.NoticeReservationExpiring})
		}
	}
	return out, nil
}
