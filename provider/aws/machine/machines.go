package machine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/utils/clock"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider"
	"tenon.sh/provider/aws/cloud"
	"tenon.sh/provider/aws/pace"
	"tenon.sh/provider/batch"
)

const (
	// unseenFor is the time for which a machine that was started here may be missing in EC2's answers, because they lag. After that, it
	// counts as gone.
	unseenFor = 5 * time.Minute
	// lookAgain is the time between two looks at a machine after a request to stop it.
	lookAgain = 5 * time.Second
	// mostValues is the largest number of values of a filter.
	mostValues = 200
)

// Config holds the settings of Machines.
type Config struct {
	Cloud   *cloud.Cloud
	Clock   clock.PassiveClock
	Cluster string
	// Observe, if set, is called for each batch: "describe_instances", "terminate_instances".
	Observe func(name string, open time.Duration, items int)
}

// Machines describes and stops the machines of a cluster. It may be used from several goroutines.
type Machines struct {
	cloud   *cloud.Cloud
	clock   clock.PassiveClock
	cluster string

	describe *batch.Batcher[string, *Machine]
	stop     *batch.Batcher[string, error]

	mu sync.Mutex // guards the fields below
	// started holds machines that were started here, until EC2 shows them.
	started map[string]Machine
	// told holds, by machine, the time of the last request to stop it, or the time at which EC2 last showed that it is stopping.
	told map[string]time.Time
}

// New makes Machines. It calls no service.
func New(cfg Config) *Machines {
	m := &Machines{cloud: cfg.Cloud, clock: cfg.Clock, cluster: cfg.Cluster, started: map[string]Machine{}, told: map[string]time.Time{}}
	observe := func(name string) func(time.Duration, int) {
		return func(open time.Duration, items int) {
			if cfg.Observe != nil {
				cfg.Observe(name, open, items)
			}
		}
	}
	m.describe = batch.New(batch.Config[string, *Machine]{
		Window: batch.Window{Idle: 100 * time.Millisecond, Most: time.Second, Items: mostValues},
		Call:   m.describeAll, Observe: observe("describe_instances"),
	})
	m.stop = batch.New(batch.Config[string, error]{
		Window: batch.Window{Idle: 100 * time.Millisecond, Most: time.Second, Items: 500},
		Call:   m.stopAll, Observe: observe("terminate_instances"),
	})
	return m
}

// Started adds a machine that EC2 has just started.
func (x *Machines) Started(m Machine) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.started[m.ID] = m
}

// Get describes a machine, or returns provider.ErrGone. A machine that was started here a moment ago exists even if EC2 does not show it yet.
func (x *Machines) Get(ctx context.Context, id string) (Machine, error) {
	m, err := x.describe.Do(ctx, "", id, nil)
	if err != nil {
		return Machine{}, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	switch young, found := x.unseen(id); {
	case m != nil:
		delete(x.started, id)
	case found:
		return young, nil
	}
	if m == nil || m.gone {
		delete(x.told, id)
		return Machine{}, provider.ErrGone
	}
	return *m, nil
}

// unseen finds a machine that was started here. The lock is held.
func (x *Machines) unseen(id string) (Machine, bool) {
	m, found := x.started[id]
	if found && x.clock.Since(m.Created) >= unseenFor {
		delete(x.started, id)
		found = false
	}
	return m, found
}

// describeAll describes many machines in one call. Each machine that the answer lacks is described once more by its ID, because lists lag
// behind.
func (x *Machines) describeAll(ctx context.Context, _ string, ids []string) []batch.Result[*Machine] {
	unique := slices.Compact(slices.Sorted(slices.Values(ids)))
	found, err := x.pages(ctx, &ec2.DescribeInstancesInput{
		Filters: []ec2types.Filter{{Name: aws.String("instance-id"), Values: unique}}, MaxResults: aws.Int32(1000),
	})
	if err != nil {
		err = fmt.Errorf("look for machine %s and %d others: %w", unique[0], len(unique)-1, err)
	}
	out := make([]batch.Result[*Machine], len(ids))
	known := map[string]*Machine{}
	for i := range found {
		known[found[i].ID] = &found[i]
	}
	for i, id := range ids {
		out[i] = batch.Result[*Machine]{Value: known[id], Err: err}
		if known[id] == nil && err == nil {
			out[i].Value, out[i].Err = x.describeOne(ctx, id)
			known[id] = out[i].Value
		}
	}
	return out
}

func (x *Machines) describeOne(ctx context.Context, id string) (*Machine, error) {
	x.mu.Lock()
	_, young := x.unseen(id)
	x.mu.Unlock()
	if young {
		return nil, nil
	}
	found, err := x.pages(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	switch {
	case cloud.NotFound(err) || cloud.Code(err) == "InvalidInstanceID.Malformed":
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look for machine %s: %w", id, err)
	case len(found) == 0:
		return nil, nil
	}
	return &found[0], nil
}

// Shown describes the machines that EC2 shows, terminated or not, and machines that were started here a moment ago.
func (x *Machines) Shown(ctx context.Context, ids []string) (map[string]Machine, error) {
	out := map[string]Machine{}
	for some := range slices.Chunk(slices.Compact(slices.Sorted(slices.Values(ids))), mostValues) {
		found, err := x.pages(ctx, &ec2.DescribeInstancesInput{
			Filters: []ec2types.Filter{{Name: aws.String("instance-id"), Values: some}}, MaxResults: aws.Int32(1000),
		})
		if err != nil {
			return out, fmt.Errorf("look for machine %s and %d others: %w", some[0], len(some)-1, err)
		}
		for _, m := range found {
			out[m.ID] = m
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, id := range ids {
		if m, young := x.unseen(id); young && out[id].ID == "" {
			out[id] = m
		}
	}
	return out, nil
}

func (x *Machines) pages(ctx context.Context, in *ec2.DescribeInstancesInput) (out []Machine, err error) {
	pages := ec2.NewDescribeInstancesPaginator(x.cloud.EC2, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, r := range page.Reservations {
			for i := range r.Instances {
				out = append(out, read(&r.Instances[i]))
			}
		}
	}
	return out, nil
}

// List lists the cluster's machines that are not terminated, and machines that were started here and that EC2 does not show yet, ordered by ID.
func (x *Machines) List(ctx context.Context) ([]Machine, error) {
	asked := x.clock.Now()
	found, err := x.pages(ctx, &ec2.DescribeInstancesInput{Filters: []ec2types.Filter{
		{Name: aws.String("tag-key"), Values: []string{v1.NodePoolLabelKey}},
		{Name: aws.String("tag-key"), Values: []string{awsv1.NodeClassLabelKey}},
		{Name: aws.String("tag:" + awsv1.ClusterNameTagKey), Values: []string{x.cluster}},
	}, MaxResults: aws.Int32(1000)})
	if err != nil {
		return nil, fmt.Errorf("list the machines of cluster %s: %w", x.cluster, err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	listed := map[string]bool{}
	var out []Machine
	for _, m := range found {
		listed[m.ID] = true
		delete(x.started, m.ID)
		if !m.gone {
			out = append(out, m)
		}
	}
	for id := range x.started {
		if m, found := x.unseen(id); found && !listed[id] {
			out = append(out, m)
		}
	}
	for id, at := range x.told { // no caller asks for the machine any more
		if asked.Sub(at) > time.Hour {
			delete(x.told, id)
		}
	}
	slices.SortFunc(out, func(a, b Machine) int { return cmp.Compare(a.ProviderID(), b.ProviderID()) })
	return out, nil
}

// OnProfiles lists the machines that use these instance profiles, by the profile's ARN, whatever program started them. It leaves out machines
// that are being terminated.
func (x *Machines) OnProfiles(ctx context.Context, arns []string) (map[string][]Machine, error) {
	out := map[string][]Machine{}
	for some := range slices.Chunk(arns, mostValues) {
		found, err := x.pages(ctx, &ec2.DescribeInstancesInput{
			Filters: []ec2types.Filter{{Name: aws.String("iam-instance-profile.arn"), Values: some}}, MaxResults: aws.Int32(1000),
		})
		if err != nil {
			return nil, fmt.Errorf("look for machines that use %d instance profiles: %w", len(some), err)
		}
		for _, m := range found {
			if !m.Stopping {
				out[m.Profile] = append(out[m.Profile], m)
			}
		}
	}
	return out, nil
}

// Stop tells a machine to stop. It returns provider.ErrGone once the machine is terminated. While the machine stops, Stop calls EC2 only now
// and then.
func (x *Machines) Stop(ctx context.Context, id string) error {
	x.mu.Lock()
	at, told := x.told[id]
	x.mu.Unlock()
	switch {
	case told && x.clock.Since(at) < lookAgain:
		return ctx.Err()
	case told:
		return x.look(ctx, id)
	}
	result, err := x.stop.Do(ctx, "", id, nil)
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.started, id)
	if result == nil {
		x.told[id] = x.clock.Now()
	}
	return result
}

// look checks whether a machine has stopped after a request.
func (x *Machines) look(ctx context.Context, id string) error {
	m, err := x.Get(ctx, id)
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if m.Stopping {
		x.told[id] = x.clock.Now()
	} else {
		delete(x.told, id) // the call had no effect
	}
	return nil
}

// stopAll stops many machines in one call. If EC2 does not know one of them, it stops none; then stopAll makes one call for each.
func (x *Machines) stopAll(ctx context.Context, _ string, ids []string) []batch.Result[error] {
	unique := slices.Compact(slices.Sorted(slices.Values(ids)))
	out := make([]batch.Result[error], len(ids))
	results, err := x.terminate(ctx, unique)
	unknown := func(id string, err error) batch.Result[error] {
		x.mu.Lock()
		defer x.mu.Unlock()
		if _, young := x.unseen(id); young { // EC2 will know it soon
			return batch.Result[error]{Err: err}
		}
		return batch.Result[error]{Value: provider.ErrGone}
	}
	for i, id := range ids {
		switch result, known := results[id]; {
		case known:
			out[i].Value = result
		case len(unique) > 1 && (cloud.NotFound(err) || err == nil):
			one, failed := x.terminate(ctx, []string{id})
			out[i].Value, out[i].Err = one[id], failed
			if cloud.NotFound(failed) {
				out[i] = unknown(id, failed)
			}
		case cloud.NotFound(err) || cloud.Code(err) == "InvalidInstanceID.Malformed":
			out[i] = unknown(id, err)
		default:
			out[i].Err = err
		}
	}
	return out
}

// terminate calls EC2. For each machine that EC2 knows, the result is nil if it is stopping now, ErrGone if it had stopped before.
func (x *Machines) terminate(ctx context.Context, ids []string) (map[string]error, error) {
	if err := x.cloud.Pace.Wait(ctx, pace.Terminated, len(ids)); err != nil {
		return nil, err
	}
	answer, err := x.cloud.EC2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids})
	if err != nil {
		return nil, fmt.Errorf("terminate machine %s and %d others: %w", ids[0], len(ids)-1, err)
	}
	out := map[string]error{}
	for _, i := range answer.TerminatingInstances {
		out[aws.ToString(i.InstanceId)] = nil
		if i.PreviousState != nil && i.PreviousState.Name == ec2types.InstanceStateNameTerminated {
			out[aws.ToString(i.InstanceId)] = provider.ErrGone
		}
	}
	return out, nil
}
