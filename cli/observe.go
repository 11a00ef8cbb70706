package cli

import (
	"context"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	v1 "tenon.sh/api/v1"
	"tenon.sh/report"
)

// serveMetrics serves the metrics of this process, and of more registries if there are any.
func (c *autoscaler) serveMetrics(more ...prometheus.Gatherer) {
	gatherers := append(prometheus.Gatherers{c.registry, ctrlmetrics.Registry}, more...)
	var handler http.Handler = promhttp.HandlerFor(gatherers, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
	c.ports.metricsHandler.Store(&handler)
}

// observe exports the state of the cluster while this process is the leader, so that it is exported once.
func (p *parts) observe(ctx context.Context) error {
	if p.opt.DisableClusterStateObservability {
		return nil
	}
	registry := p.state
	var domains []string
	for _, kind := range p.cluster.Provider.Kinds() {
		domains = append(domains, kind.Group)
	}
	registry.MustRegister(report.NewStateCollector(p.cluster.Snapshot, domains...))
	observer := report.NewStatusObserver(registry, p.recorder, clock.RealClock{}, "node", "nodeclaim", "nodepool")
	for _, o := range []struct {
		kind   string
		object client.Object
		tell   bool // the kubelet and the node lifecycle controller tell of nodes themselves
	}{{"node", &corev1.Node{}, false}, {"nodeclaim", &v1.NodeClaim{}, true}, {"nodepool", &v1.NodePool{}, true}} {
		informer, err := p.mgr.GetCache().GetInformer(ctx, o.object)
		if err != nil {
			return fmt.Errorf("observe %ss: %w", o.kind, err)
		}
		if _, err := informer.AddEventHandler(observer.Handler(o.kind, o.tell)); err != nil {
			return fmt.Errorf("observe %ss: %w", o.kind, err)
		}
	}
	pods, err := p.mgr.GetCache().GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return fmt.Errorf("observe pods: %w", err)
	}
	if _, err := pods.AddEventHandler(p.pods.Handler()); err != nil {
		return fmt.Errorf("observe pods: %w", err)
	}
	p.serveMetrics(registry)
	<-ctx.Done()
	p.serveMetrics()
	return nil
}
