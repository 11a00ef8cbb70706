package cli

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/report"
	"tenon.sh/uninstall"
)

const (
	windEvery = time.Second
	// windSlowly is the time between two explanations of the same state.
	windSlowly = 15 * time.Second
)

// winder removes an installation.
type winder struct {
	options *uninstallOptions
	config  *rest.Config
	stock   stock
	in      *installation
	out     *terminal

	began    time.Time
	cloud    atomic.Pointer[provider.Provider] // nil until it is known
	asked    bool
	machines []engine.Machine
	stays    map[string]bool
	absent   map[string]bool      // machines that were released without a node
	nameless map[string]bool      // nodes that were released and have no provider ID
	last     *uninstall.Inventory // the objects at the last step
	said     string
	saidAt   time.Time
}

// run removes the installation. The command's own autoscaler waits for the Lease. If there is no holder, this process drains claims. If
// machines shall stay, no other process may change claims meanwhile.
func (w *winder) run(ctx context.Context) error {
	w.began = time.Now()
	w.forget()
	c, err := w.autoscaler()
	if err != nil {
		return err
	}
	defer c.ports.close()
	if missing := c.missingKinds(); missing != nil {
		return fmt.Errorf("nothing can be removed by way of this cluster: %w; or it was never installed, and there is nothing to remove", missing)
	}
	if w.options.keep {
		if err := w.awaitJoining(ctx); err != nil {
			return err
		}
		if err := w.stopController(ctx); err != nil {
			return err
		}
		return w.keepMachines(ctx, c)
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		defer close(ended)
		ended <- c.run(running)
	}()
	err = w.wind(ctx, ended)
	stop()
	return errors.Join(err, <-ended)
}

// forget resets the state to that before the first step.
func (w *winder) forget() {
	w.stays, w.absent, w.nameless, w.last = map[string]bool{}, map[string]bool{}, map[string]bool{}, &uninstall.Inventory{}
}

// autoscaler returns an autoscaler that starts no machines.
func (w *winder) autoscaler() (*autoscaler, error) {
	opt := w.options.controller
	opt.MetricsPort, opt.HealthProbePort, opt.DashboardPort = -1, -1, -1
	opt.LogLevel, opt.LogFormat, opt.DisableClusterStateObservability = "error", "console", true
	logger, err := newLogger(opt, w.out.out)
	if err != nil {
		return nil, err
	}
	ports, err := listen(opt)
	if err != nil {
		return nil, err
	}
	config := rest.CopyConfig(w.config)
	config.QPS, config.Burst, config.Timeout = float32(opt.KubeClientQPS), opt.KubeClientBurst, 0
	return &autoscaler{
		opt: opt, config: config, ports: ports, log: logger, registry: prometheus.NewRegistry(), onlyEnds: true,
		connected: func(p provider.Provider) { w.cloud.Store(&p) },
	}, nil
}

// keepMachines releases all machines once this process holds the Lease.
func (w *winder) keepMachines(ctx context.Context, c *autoscaler) error {
	lasting, err := c.newLasting()
	if err != nil {
		return err
	}
	mgr, err := c.newManager(ctx)
	if err != nil {
		return err
	}
	made, err := c.newCloud(ctx, &parts{
		autoscaler: c, mgr: mgr, lasting: lasting, state: prometheus.NewRegistry(), recorder: report.NewRecorder(mgr.GetClient(), clock.RealClock{}),
	})
	if err != nil {
		return err
	}
	c.connected(made)
	running, stop := context.WithCancel(ctx)
	defer stop()
	var begun atomic.Bool
	if t := w.options.timeout; t > 0 {
		defer time.AfterFunc(t, func() {
			if !begun.Load() {
				stop()
			}
		}).Stop()
	}
	var result error
	err = mgr.Add(leading(func(ctx context.Context) error {
		defer stop()
		begun.Store(true)
		result = w.wind(ctx, nil)
		return nil
	}))
	if err != nil {
		return err
	}
	if err := mgr.Start(running); err != nil {
		return fmt.Errorf("hold Lease %s/%s: %w", c.leaseNamespace(), c.opt.LeaderElectionName, err)
	}
	if !begun.Load() && ctx.Err() == nil {
		return fmt.Errorf("gave up: another controller held Lease %s/%s for %s: stop it, and run this again", c.leaseNamespace(), c.opt.LeaderElectionName, w.options.timeout)
	}
	return errors.Join(result, ctx.Err())
}

// wind makes steps until nothing is left. ended receives a value if the autoscaler beside it has ended.
func (w *winder) wind(ctx context.Context, ended <-chan error) error {
	for {
		done, err := w.step(ctx)
		if done {
			return nil
		}
		if ctx.Err() == nil {
			w.tell(ctx, err)
		}
		if t := w.options.timeout; t > 0 && time.Since(w.began) > t {
			return fmt.Errorf("gave up after %s: %s left; run this again to go on", t, w.left())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-ended:
			return fmt.Errorf("draining has ended: %w", err)
		case <-time.After(windEvery):
		}
	}
}

// step reads the objects and makes all steps that are possible now. It reports whether nothing is left.
func (w *winder) step(ctx context.Context) (done bool, err error) {
	inv, err := w.stock.take(ctx, classKindsOf(w.options.controller.CloudProvider))
	if err != nil {
		return false, err
	}
	inv.Asked, inv.Machines = w.asked, w.machines
	w.last = inv
	actions := uninstall.Next(inv, w.options.keep)
	if len(actions) == 0 && !uninstall.Left(inv) {
		return true, nil
	}
	var errs []error
	for _, a := range actions {
		errs = append(errs, w.do(ctx, a))
	}
	return false, errors.Join(append(errs, w.hurry(ctx, inv))...)
}

// startsNothing is a provider that starts no machines.
type startsNothing struct{ provider.Provider }

var errUninstalling = &provider.LaunchError{Reason: "Uninstalling", Err: errors.New("tenon uninstall is running: no machine is started any more")}

// Launch returns an error.
func (startsNothing) Launch(context.Context, *v1.NodeClaim, provider.Class) (engine.Machine, error) {
	return engine.Machine{}, errUninstalling
}
