package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/cluster"
	"tenon.sh/deploy"
	"tenon.sh/playground"
)

// localOptions are the options of a local cluster.
type localOptions struct {
	gates, apis string // of Kubernetes, in addition to the defaults
	dir         string
	catalog     string
	bootDelay   time.Duration
	controller  bool
}

func (o *localOptions) addFlags(flags *pflag.FlagSet) {
	flags.DurationVar(&o.bootDelay, "boot-delay", 0, "how long a machine takes until its node registers")
}

// controllerOptions returns the options of Tenon's controller in a local cluster.
func (o *localOptions) controllerOptions() ControllerOptions {
	options := DefaultControllerOptions()
	options.Catalog, options.BootDelay = o.catalog, o.bootDelay
	options.MetricsPort, options.HealthProbePort = 0, 0 // any free ports
	options.ListenAddress = loopback
	options.DisableLeaderElection = true
	return options
}

// A localCluster is a playground with Tenon's kinds. Tenon runs in this process.
type localCluster struct {
	config *rest.Config
	log    string       // path of Tenon's log, "" without Tenon
	died   <-chan error // receives an error if a part ends unexpectedly

	playground *playground.Playground
	endTenon   func() error
}

// startLocal starts a local cluster and prints its progress on t. After an error nothing is left running.
func startLocal(ctx context.Context, options localOptions, t *terminal) (*localCluster, error) {
	if err := options.controllerOptions().check(); err != nil {
		return nil, err
	}
	t.line("%s", t.paint(bold, "A local cluster"))
	quietLibraries()
	began := time.Now()
	progress := func(line string) {
		t.line("  %s  %s", t.paint(faint, fmt.Sprintf("%6.1f s", time.Since(began).Seconds())), line)
	}
	pg, err := playground.Start(ctx, playground.Config{Dir: options.dir, Progress: progress, FeatureGates: options.gates, APIs: options.apis})
	if err != nil {
		return nil, interruptedOr(ctx, err)
	}
	died := make(chan error, 2) // one for each part that may end
	local := &localCluster{config: pg.RESTConfig(), died: died, playground: pg, endTenon: func() error { return nil }}
	go func() {
		if err := <-pg.Done(); err != nil {
			died <- err
		}
	}()
	if err := local.fill(ctx, options, died, progress); err != nil {
		_ = local.stop(t) // the first error is more useful
		return nil, interruptedOr(ctx, err)
	}
	return local, nil
}

// fill installs the kinds and starts Tenon.
func (l *localCluster) fill(ctx context.Context, options localOptions, died chan<- error, progress func(string)) error {
	if err := cluster.ApplyCRDs(ctx, l.config); err != nil {
		return err
	}
	progress("Tenon's kinds are installed")
	// The kubeconfig authenticates by a certificate, but tenon plan and tenon snapshot need a token for the controller.
	if err := allowSnapshots(ctx, l.config, metav1.NamespaceSystem); err != nil {
		return err
	}
	if !options.controller {
		return nil
	}
	account, err := l.account(ctx)
	if err != nil {
		return err
	}
	l.log = filepath.Join(l.playground.Dir(), "logs", "tenon.log")
	end, err := startTenon(ctx, account, l.log, options, died)
	if err != nil {
		return err
	}
	l.endTenon = end
	progress("Tenon is started")
	return nil
}

// account returns a configuration for Tenon with the same rights as in a real cluster.
func (l *localCluster) account(ctx context.Context) (*rest.Config, error) {
	c, err := client.New(l.config, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("connect to the local cluster: %w", err)
	}
	if err := apply(ctx, c, deploy.RBAC, "rbac/rbac.yaml"); err != nil {
		return nil, err
	}
	return l.playground.UserConfig("system:serviceaccount:"+deploy.Namespace+":"+deploy.ServiceAccount,
		"system:serviceaccounts", "system:serviceaccounts:"+deploy.Namespace)
}

// introduce prints how to reach the cluster.
func (l *localCluster) introduce(t *terminal) {
	t.line("The cluster is up until Ctrl-C. In another terminal:")
	t.line("")
	t.line("  %s", t.paint(bold, "export KUBECONFIG="+l.playground.Kubeconfig()))
	t.line("")
	if l.log == "" {
		t.line("Tenon is not running. Start one there with: bin/tenon controller --catalog aws")
		return
	}
	t.line("Tenon's log is %s", l.log)
}

// stay returns when ctx ends, or with an error if a part has ended unexpectedly.
func (l *localCluster) stay(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-l.died:
		return err
	}
}

// stop ends Tenon and the control plane, in this order.
func (l *localCluster) stop(t *terminal) error {
	t.line("")
	t.line("Stopping.")
	err := l.endTenon()
	if stopErr := l.playground.Stop(); err == nil {
		err = stopErr
	}
	return err
}

// interruptedOr returns errInterrupted if ctx has ended, because this is then the cause of err.
func interruptedOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// startTenon runs Tenon in this process with its log in a file, and returns a function that ends it. If Tenon ends by itself, died receives
// the error. The only other difference from a real cluster is that there is no leader election.
func startTenon(ctx context.Context, config *rest.Config, logPath string, local localOptions, died chan<- error) (end func() error, err error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open Tenon's log: %w", err)
	}
	options := local.controllerOptions()

	// Ctrl-C must not end Tenon before end is called, because died would then report a failure.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() {
		err := RunController(running, config, options, log)
		if running.Err() == nil {
			died <- fmt.Errorf("the controller has ended: %w", err)
		}
		ended <- errors.Join(err, log.Close())
	}()
	return func() error {
		stop()
		return <-ended
	}, nil
}
