package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/cluster/lane"
	"tenon.sh/provider"
)

func newController() *cobra.Command {
	opt := DefaultControllerOptions()
	var kubeconfig string
	command := &cobra.Command{
		Use:         "controller",
		Annotations: map[string]string{cleansUp: "true"},
		Short:       "Run the autoscaler in or for a cluster",
		Long: `Runs the autoscaler until it is interrupted. In a cluster it uses its service account, elsewhere the current context
of the kubeconfig. Every flag can be given by an environment variable as well; a flag wins over it.`,
		Args: noArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := opt.readOptions(command.Flags()); err != nil {
				return err
			}
			config, err := restConfig(kubeconfig, "")
			if err != nil {
				return err
			}
			if err := logLibraries(opt, command.OutOrStdout()); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(command.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return RunController(ctx, config, opt, command.OutOrStdout())
		},
	}
	opt.addFlags(command.Flags())
	command.Flags().StringVar(&kubeconfig, "kubeconfig", "", "file that says how to reach the API server; empty for the usual places")
	return command
}

func restConfig(kubeconfig, inContext string) (*rest.Config, error) {
	if inContext != "" {
		return contextConfig(kubeconfig, inContext)
	}
	if kubeconfig != "" {
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if clientcmd.IsEmptyConfig(err) {
			return nil, fmt.Errorf("--kubeconfig %s: it says of no cluster how to reach it", kubeconfig)
		}
		if err != nil {
			return nil, fmt.Errorf("--kubeconfig: %w", err)
		}
		return config, nil
	}
	config, err := ctrlconfig.GetConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errNoKubeconfig
	}
	if err != nil {
		return nil, fmt.Errorf("find out how to reach the API server: %w", err)
	}
	return config, nil
}

// contextConfig returns the configuration of a context by its name, like kubectl --context.
func contextConfig(kubeconfig, name string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	loaded, err := rules.Load()
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	if loaded.Contexts[name] == nil {
		known := slices.Sorted(maps.Keys(loaded.Contexts))
		if len(known) == 0 {
			return nil, fmt.Errorf("--context %s: the kubeconfig has no context: set KUBECONFIG or --kubeconfig", name)
		}
		return nil, fmt.Errorf("--context %s: the kubeconfig has no such context, only %s", name, strings.Join(known, ", "))
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*loaded, name, &clientcmd.ConfigOverrides{}, rules).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("--context %s: %w", name, err)
	}
	return config, nil
}

var errNoKubeconfig = errors.New("there is no kubeconfig that says how to reach a cluster: set KUBECONFIG or --kubeconfig")

// RunController runs the autoscaler against an API server until ctx ends. It returns an error only if a retry would not help: for wrong
// options or a port in use. It retries if the API server cannot be reached, if kinds are not installed or if the lease is lost.
func RunController(ctx context.Context, config *rest.Config, opt ControllerOptions, out io.Writer) error {
	if err := opt.check(); err != nil {
		return err
	}
	logger, err := newLogger(opt, out)
	if err != nil {
		return err
	}
	ports, err := listen(opt)
	if err != nil {
		return err
	}
	defer ports.close()
	ctx = log.IntoContext(ctx, logger)
	limitMemory(opt.MemoryLimit, opt.EnableProfiling)
	for _, gate := range gatesWithoutEffect(opt.FeatureGates) {
		logger.Info("feature gate is not known here and has no effect", "gate", gate)
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = float32(opt.KubeClientQPS), opt.KubeClientBurst
	config.UserAgent = "karpenter/" + buildVersion()
	config.Wrap(lane.NewGate(lane.AtOnce).Wrap)
	c := &autoscaler{opt: opt, config: config, ports: ports, log: logger, registry: prometheus.NewRegistry()}
	return c.run(ctx)
}

// autoscaler is one running autoscaler.
type autoscaler struct {
	opt      ControllerOptions
	config   *rest.Config
	ports    *endpoints
	log      logr.Logger
	registry *prometheus.Registry // of the metrics that outlive a lost lease
	// onlyEnds means that machines are only drained and stopped, because the installation is being removed.
	onlyEnds bool
	// connected, if set, is called with the provider once it is made.
	connected func(provider.Provider)
}

func (c *autoscaler) run(ctx context.Context) error {
	c.setProbes(nil, errors.New("waiting for the API server"))
	c.serveMetrics()
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	c.ports.serve(serving, c.opt.EnableProfiling)
	c.log.Info("starting", "version", buildVersion(), "cloud-provider", c.opt.CloudProvider)
	lasting, err := c.newLasting()
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := c.waitForKinds(ctx); err != nil {
			break // only because ctx has ended
		}
		err := c.lead(ctx, lasting)
		if ctx.Err() == nil {
			c.log.Error(err, "stopped, will start again")
			c.setProbes(nil, errors.New("starting again"))
			pause(ctx, 2*time.Second)
		}
	}
	c.log.Info("stopped")
	return nil
}

func (c *autoscaler) setProbes(healthy, ready error) {
	h, r := func() error { return healthy }, func() error { return ready }
	c.ports.healthy.Store(&h)
	c.ports.ready.Store(&r)
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
