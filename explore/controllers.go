package explore

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/controller"
	"tenon.sh/controller/capacitybuffer"
	"tenon.sh/controller/disrupt"
	"tenon.sh/controller/interruption"
	"tenon.sh/controller/nodeclaim"
	"tenon.sh/controller/nodeclass"
	"tenon.sh/controller/nodepool"
	"tenon.sh/controller/provision"
	"tenon.sh/engine"
)

// controllers adds all parts of a process, like the command controller. A new loop needs one line here, a loop with a watch two.
func (p *process) controllers() {
	ctx, metrics, options := context.Background(), p.w.shared.metrics, engine.Options{Effort: 2000}
	provisions := provision.Config{Cluster: p.cluster, Recorder: p.recorder, Metrics: metrics, Options: options, AtOnce: 1}
	if p.w.opt.Buffers {
		provisions.Buffers = &capacitybuffer.Writer{Cluster: p.cluster, Recorder: p.recorder, Metrics: metrics}
	}
	provisioner := provision.New(provisions)
	disruptor := disrupt.New(disrupt.Config{Cluster: p.cluster, Recorder: p.recorder, Metrics: metrics, Options: options, AtOnce: 1})
	provisioning := p.loop("provisioner", provisioner.Reconcile, time.Second, 10*time.Second, 10*time.Second)
	disrupting := p.loop("disruption", disruptor.Reconcile, time.Second, 5*time.Second, 10*time.Second)
	p.watch(provision.Watch(ctx, p.views, provisioning.Trigger, provisioning.Join))
	if p.w.opt.Buffers {
		p.watch(capacitybuffer.Watch(ctx, p.views, provisioning.Trigger))
	}
	p.watch(disrupt.Watch(ctx, p.views, disrupting.Trigger, func(node *corev1.Node) {
		disruptor.ReportFault(node)
		disrupting.Hurry(string(node.UID), nil)
	}))

	var leaving *controller.Loop
	notices := interruption.New(interruption.Config{
		Cluster: p.cluster, Notifier: p.cloud, Recorder: p.recorder, Metrics: metrics, WritesAtOnce: 1,
		Hurry: func(then func()) { provisioning.Hurry("notice", then) }, Ready: func() { leaving.Trigger("notice") },
	})
	p.loop("interruption", notices.Reconcile, 0, 0, 5*time.Second)
	leaving = p.loop("interruption.leave", notices.Leave, 0, 0, interruption.HeadStart)

	health := nodepool.NewHealth(nil)
	pools := p.loop("nodepool", nodepool.New(nodepool.Config{Cluster: p.cluster, Health: health, StaticCapacity: true}).Reconcile, 200*time.Millisecond, time.Second, time.Minute)
	classes := p.loop("nodeclass", (&nodeclass.Reconciler{Cluster: p.cluster}).Reconcile, 100*time.Millisecond, time.Second, 30*time.Second)
	static := nodepool.NewStatic(nodepool.StaticConfig{Cluster: p.cluster, Metrics: metrics, Options: options, WritesAtOnce: 1})
	resizing := p.loop("static", static.Reconcile, 200*time.Millisecond, time.Second, 30*time.Second)
	p.watch(nodepool.Watch(ctx, p.views, func(cause string) { pools.Trigger(cause); resizing.Trigger(cause) }))
	p.watch(nodeclass.Watch(ctx, p.cluster, func(cause string) { classes.Trigger(cause); pools.Trigger(cause) }))
	p.cluster.OnCatalogChange(func() { provisioning.Trigger("catalog"); disrupting.Trigger("catalog") })

	claims := nodeclaim.New(nodeclaim.Config{
		Cluster: p.cluster, Recorder: p.recorder, Metrics: metrics, Pause: p.pause, WritesAtOnce: 1,
		Outcome: func(_ context.Context, claim *v1.NodeClaim, registered bool) {
			for _, owner := range claim.OwnerReferences {
				health.Registered(owner.UID, registered, "", "")
				pools.Trigger("health")
			}
		},
	})
	nodes := nodeclaim.NodeReconciler{Reconciler: claims}
	p.queue("nodeclaim", claims, append(claims.Sources(), itself(&v1.NodeClaim{})))
	p.queue("node", nodes, nodes.Sources())
	p.loop("garbage", claims.Collect, time.Second, time.Second, 2*time.Minute)
	if more := p.w.switches.Controllers; more != nil {
		more(p.cluster, func(name string, pass func(context.Context) error, every time.Duration) {
			p.loop(name, pass, every, every, every)
		})
	}
}
