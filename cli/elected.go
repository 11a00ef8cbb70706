package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/transport"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/cluster/term"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/report"
)

// elected is a manager for one term as leader. It writes to the cluster only within the term, and ends when the term ends.
type elected struct {
	manager.Manager
	term   *term.Term              // nil if there is no election
	stop   context.CancelCauseFunc // stops Start
	events record.EventBroadcaster // sends events about the Lease
}

func (c *autoscaler) newManager(ctx context.Context) (*elected, error) {
	e := &elected{events: record.NewBroadcaster()}
	options := ctrl.Options{
		Scheme:                        cluster.Scheme(),
		Logger:                        c.log,
		Cache:                         cluster.CacheOptions(),
		NewClient:                     newClient,
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress:        "0",
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 ptr.To(term.LeaseDuration),
		RenewDeadline:                 ptr.To(term.RenewDeadline),
		RetryPeriod:                   ptr.To(term.RetryPeriod),
		GracefulShutdownTimeout:       ptr.To(15 * time.Second),
		// The next term's manager uses the same controller names again.
		Controller:  ctrlconfig.Controller{SkipNameValidation: ptr.To(true)},
		BaseContext: func() context.Context { return context.WithoutCancel(ctx) },
	}
	if !c.opt.DisableLeaderElection {
		lock, err := c.newLock(e.events)
		if err != nil {
			return nil, err
		}
		e.term = term.New(term.Config{Lock: lock, Now: term.Clocks(), Log: c.log, End: func(err error) { e.stop(err) }})
		options.LeaderElection, options.LeaderElectionID, options.LeaderElectionResourceLockInterface = true, c.opt.LeaderElectionName, e.term
	}
	config := rest.CopyConfig(c.config)
	config.WrapTransport = transport.Wrappers(e.term.Wrap, c.config.WrapTransport) // innermost: the term checks each write last
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, fmt.Errorf("prepare to watch the cluster: %w", err)
	}
	e.Manager = mgr
	return e, nil
}

func newClient(config *rest.Config, options client.Options) (client.Client, error) {
	c, err := client.New(config, options)
	if err != nil {
		return nil, err
	}
	return cluster.OneCase(c), nil
}

// GetAPIReader returns a client that reads from the API server, not from a cache.
func (e *elected) GetAPIReader() client.Reader {
	return cluster.OneCaseReader(e.Manager.GetAPIReader())
}

// newLock returns the Lease for leader election. The candidate's name is unique.
func (c *autoscaler) newLock(events record.EventBroadcaster) (*resourcelock.LeaseLock, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name a candidate for leader: %w", err)
	}
	config := rest.AddUserAgent(rest.CopyConfig(c.config), "leader-election")
	config.Timeout = term.RenewDeadline / 2 // so that one request without an answer does not cost the lease
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	identity := host + "_" + string(uuid.NewUUID())
	events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: api.CoreV1().Events("")})
	return &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: c.leaseNamespace(), Name: c.opt.LeaderElectionName},
		Client:    api.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{
			Identity: identity, EventRecorder: events.NewRecorder(cluster.Scheme(), corev1.EventSource{Component: identity}),
		},
	}, nil
}

// Start runs the manager until ctx ends or the term is over. It returns nil only if ctx has ended.
func (e *elected) Start(ctx context.Context) error {
	running, stop := context.WithCancelCause(ctx)
	defer e.events.Shutdown()
	defer stop(nil)
	e.stop = stop // a term ends only after it has begun
	if err := e.Manager.Start(running); err != nil || ctx.Err() != nil {
		return err
	}
	return context.Cause(running)
}

// identity returns the name of this candidate in the Lease. It returns "" if there is no election.
func (e *elected) identity() string {
	if e.term == nil {
		return ""
	}
	return e.term.Identity()
}

// fenced is a provider that starts and stops machines only during one term as leader.
type fenced struct {
	report.Measured
	term *term.Term
}

// Launch starts a machine.
func (f fenced) Launch(ctx context.Context, claim *v1.NodeClaim, class provider.Class) (engine.Machine, error) {
	if err := f.term.Check("start a machine for NodeClaim " + claim.Name); err != nil {
		return engine.Machine{}, err
	}
	return f.Measured.Launch(ctx, claim, class)
}

// LaunchNoted starts a machine after the provider has called note.
func (f fenced) LaunchNoted(ctx context.Context, claim *v1.NodeClaim, class provider.Class, note provider.Note) (engine.Machine, error) {
	if err := f.term.Check("start a machine for NodeClaim " + claim.Name); err != nil {
		return engine.Machine{}, err
	}
	return f.Measured.LaunchNoted(ctx, claim, class, note)
}

// Terminate requests that a machine stop.
func (f fenced) Terminate(ctx context.Context, id engine.MachineID) error {
	if err := f.term.Check("stop machine " + string(id)); err != nil {
		return err
	}
	return f.Measured.Terminate(ctx, id)
}
