package cli

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	v1 "tenon.sh/api/v1"
	"tenon.sh/report"
)

// serveMetrics serves the metrics of this process and of the given registries.
func (c *autoscaler) serveMetrics(more ...prometheus.Gatherer) {
	gatherers := append(prometheus.Gatherers{c.registry, ctrlmetrics.Registry}, more...)
	var handler http.Handler = report.NewExposition(gatherers, clock.RealClock{})
	c.ports.metricsHandler.Store(&handler)
}

// tellUnsynced exports a metric that the caches are not filled yet. It ends in followers when their caches are filled, and in leaders when
// they export the state.
func (p *parts) tellUnsynced() {
	p.unsynced = report.NewUnsynced(clock.RealClock{})
	if p.opt.DisableClusterStateObservability {
		return
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(p.unsynced)
	p.serveMetrics(registry)
}

// observe exports the state of the cluster while this process is the leader, so that only one process exports it.
func (p *parts) observe(ctx context.Context) error {
	if !p.opt.DisableClusterStateObservability {
		if err := p.observeState(ctx, p.state); err != nil {
			return err
		}
	}
	p.serveMetrics(p.state) // the cloud's metrics are in the same registry
	<-ctx.Done()
	p.serveMetrics()
	return nil
}

// observedKind is a kind whose conditions become metrics. If `tell` is true, its conditions also become events.
type observedKind struct {
	name string
	kind schema.GroupVersionKind
	tell bool
}

// observeState registers the metrics of the cluster's state.
func (p *parts) observeState(ctx context.Context, registry *prometheus.Registry) error {
	var domains []string
	observed := []observedKind{ // no events for nodes, because the kubelet and the node lifecycle controller make them
		{"node", corev1.SchemeGroupVersion.WithKind("Node"), false}, {"nodeclaim", v1.GroupVersion.WithKind("NodeClaim"), true},
		{"nodepool", v1.GroupVersion.WithKind("NodePool"), true},
	}
	for _, kind := range p.cluster.Provider.Kinds() {
		domains = append(domains, kind.Group)
		observed = append(observed, observedKind{strings.ToLower(kind.Kind), kind, true})
	}
	registry.MustRegister(report.NewStateCollector(p.cluster.Snapshot, domains...))
	var names []string
	for _, o := range observed {
		names = append(names, o.name)
	}
	observer := report.NewStatusObserver(registry, p.recorder, clock.RealClock{}, names...)
	for _, o := range observed {
		informer, err := p.mgr.GetCache().GetInformerForKind(ctx, o.kind)
		if err != nil {
			return fmt.Errorf("observe %ss: %w", o.name, err)
		}
		if _, err := informer.AddEventHandler(observer.Handler(o.name, o.tell)); err != nil {
			return fmt.Errorf("observe %ss: %w", o.name, err)
		}
	}
	pods, err := p.mgr.GetCache().GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return fmt.Errorf("observe pods: %w", err)
	}
	if _, err := pods.AddEventHandler(p.pods.Handler()); err != nil {
		return fmt.Errorf("observe pods: %w", err)
	}
	return nil
}
