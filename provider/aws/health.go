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
	// healthEvery is the time between two calls of Notices.
	healthEvery = 5 * time.Second
	// statusEvery is the time between two calls to EC2 for broken machines, deniedEvery the time after EC2 has denied the call.
	statusEvery, deniedEvery = time.Minute, time.Hour
	// askPatience is the time limit of the calls of one look, because the next look comes soon.
	askPatience = 30 * time.Second
)

// statusPrefix and expiringPrefix begin the IDs of notices.
const statusPrefix, expiringPrefix = "status/", "expiring/"

// health is the source of notices from EC2's checks of machines and from reservations that end. It looks for zonal shifts of the cluster too.
type health struct {
	*Provider

	mu sync.Mutex // guards the fields below
	// ailing holds the ailments that EC2 reports; the value is true after Acknowledge.
	ailing map[notice.Ailment]bool
	next   time.Time
}

// Notices makes the calls that are due. If a call fails, the last known state stays, and the call is repeated.
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

// ailments returns notices for the ailments that are not acknowledged.
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

// Acknowledge records that an ailment was acted on. Notices of ending reservations come again until their claims are deleted.
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

// expiring returns notices for machines whose capacity block ends soon. EC2 will take these machines away without a notice of its own.
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
