package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/examples"
	"tenon.sh/provider/catalog"
)

// The values in the demo's manifests, in the folder examples/inflate.
const (
	demoPool             = "default"
	demoApp              = "inflate"
	demoReplicas         = 5
	demoConsolidateAfter = 30 * time.Second
)

// poolPatience is the time limit for Tenon to lead and to process the pool.
const poolPatience = 30 * time.Second

// eventsToKeep is the number of last events that a failure shows.
const eventsToKeep = 10

func newDemo() *cobra.Command {
	// The pool asks for EC2's families, so that a newcomer sees known names and prices.
	options := localOptions{controller: true, catalog: catalog.NameAWS}
	var leave bool
	command := &cobra.Command{
		Use:         "demo",
		Annotations: map[string]string{cleansUp: "true"},
		Short:       "Start a local cluster and show a machine come and go",
		Long: `Starts a local control plane and Tenon with a simulated cloud, scales a Deployment to five pods and back to none,
and says what happens, stage by stage. Then it stays up, with a kubeconfig for your own tries, until Ctrl-C.`,
		Args: noArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			d := &demo{localOptions: options, terminal: newTerminal(command.OutOrStdout()), leave: leave}
			return d.run(command.Context())
		},
	}
	flags := command.Flags()
	flags.BoolVar(&leave, "exit", false, "leave after the round trip; the status is 0 if every stage was reached in time")
	flags.StringVar(&options.dir, "dir", "", "folder for the cluster's data and logs; empty or new (default: a temporary one)")
	options.addFlags(flags)
	return command
}

// A demo is one run of the command.
type demo struct {
	localOptions
	*terminal
	leave bool

	local   *localCluster
	client  client.Client
	prices  *priceList
	journey *journey
	began   time.Time // when the Deployment was scaled up; the times of stages count from here
	events  []string  // the last ones
}

func (d *demo) run(ctx context.Context) (err error) {
	if err := d.controllerOptions().check(); err != nil {
		return err
	}
	temporary := d.dir == ""
	if temporary {
		if d.dir, err = os.MkdirTemp("", "tenon-demo-"); err != nil {
			return fmt.Errorf("make a folder for the demo: %w", err)
		}
	}
	if d.local, err = startLocal(ctx, d.localOptions, d.terminal); err == nil {
		err = d.show(ctx)
		if stopErr := d.local.stop(d.terminal); err == nil {
			err = stopErr
		}
	}
	if err != nil && !errors.Is(err, errInterrupted) {
		d.line("logs are in %s", filepath.Join(d.dir, "logs"))
		return err
	}
	if temporary {
		err = errors.Join(err, os.RemoveAll(d.dir))
	}
	return err
}

// show makes the round trip, and stays up after it unless the user wants to leave.
func (d *demo) show(ctx context.Context) error {
	if err := d.prepare(ctx); err != nil {
		return err
	}
	if err := d.roundTrip(ctx); err != nil {
		return err
	}
	d.line("")
	d.table()
	if d.leave {
		return nil
	}
	d.line("")
	d.local.introduce(d.terminal)
	d.line("Try next:")
	d.line("  kubectl scale deployment inflate --replicas 20")
	d.line("  kubectl get nodeclaims,nodes,pods")
	d.line("  kubectl get events --sort-by .lastTimestamp")
	d.line("  bin/tenon plan --disrupt       what Tenon would do now, and why")
	d.line("  bin/tenon snapshot -o x.yaml   the cluster as a file, for bin/tenon plan -f x.yaml")
	return d.local.stay(ctx)
}

func (d *demo) prepare(ctx context.Context) (err error) {
	if d.client, err = client.New(d.local.config, client.Options{Scheme: cluster.Scheme()}); err != nil {
		return fmt.Errorf("connect to the local cluster: %w", err)
	}
	if d.prices, err = newPriceList(d.catalog); err != nil {
		return err
	}
	claims := &v1.NodeClaimList{}
	if err := d.client.List(ctx, claims); err != nil {
		return fmt.Errorf("list NodeClaims: %w", err)
	}
	if len(claims.Items) > 0 {
		return fmt.Errorf("folder %s holds a cluster with %d NodeClaims from an earlier run: choose an empty or a new folder",
			d.dir, len(claims.Items))
	}
	if err := apply(ctx, d.client, examples.Inflate, "inflate"); err != nil {
		return err
	}
	return d.awaitPool(ctx)
}

// awaitPool waits until Tenon has processed the pool, so that the demo's times do not include Tenon's start.
func (d *demo) awaitPool(ctx context.Context) error {
	for deadline := time.Now().Add(poolPatience); ; pause(ctx, 100*time.Millisecond) {
		pool := &v1.NodePool{}
		if err := d.client.Get(ctx, types.NamespacedName{Name: demoPool}, pool); err != nil {
			return interruptedOr(ctx, fmt.Errorf("get NodePool %s: %w", demoPool, err))
		}
		if v1.IsTrue(pool, v1.ConditionReady) {
			return nil
		}
		select {
		case err := <-d.local.died:
			return err
		case <-ctx.Done():
			return errInterrupted
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("NodePool %s was not ready within %s", demoPool, poolPatience)
		}
	}
}

// roundTrip scales up and down, and waits for each stage in turn.
func (d *demo) roundTrip(ctx context.Context) error {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	seen, err := watch(watching, d.local.config, demoPool, demoApp)
	if err != nil {
		return err
	}
	d.journey = newJourney(demoReplicas, demoConsolidateAfter, d.bootDelay)
	d.line("")
	d.line("%s", d.paint(bold, fmt.Sprintf("Deployment %s: 0 → %d pods of 1 cpu", demoApp, demoReplicas)))
	d.began = time.Now()
	if err := d.scale(ctx, demoReplicas); err != nil {
		return err
	}
	for s := range stage(stages) {
		if s == scaledDown {
			if err := d.scaleDown(ctx); err != nil {
				return err
			}
		}
		if err := d.await(ctx, s, seen); err != nil {
			return err
		}
		d.printStage(s)
	}
	return nil
}

func (d *demo) scaleDown(ctx context.Context) error {
	d.line("")
	d.line("%s", d.paint(bold, fmt.Sprintf("Deployment %s: %d → 0 pods", demoApp, demoReplicas)))
	if err := d.scale(ctx, 0); err != nil {
		return err
	}
	d.journey.scaled(time.Now())
	return nil
}

func (d *demo) scale(ctx context.Context, replicas int) error {
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	if err := d.client.Patch(ctx, inflate(), client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("scale Deployment %s to %d: %w", demoApp, replicas, err)
	}
	return nil
}

// await processes the sightings of the watches until the stage is reached.
func (d *demo) await(ctx context.Context, s stage, seen <-chan sighting) error {
	limit := d.journey.limit(s)
	late := time.NewTimer(limit)
	defer late.Stop()
	for d.journey.reached[s].IsZero() {
		select {
		case sight := <-seen:
			if event, ok := sight.object.(*corev1.Event); ok {
				d.keep(event)
			}
			d.journey.see(sight.object, sight.deleted, sight.at)
		case <-late.C:
			return d.missed(s, fmt.Errorf("stage %q was not reached within %s", stageNames[s], limit))
		case err := <-d.local.died:
			return d.missed(s, err)
		case <-ctx.Done():
			return errInterrupted
		}
	}
	return nil
}

func (d *demo) keep(event *corev1.Event) {
	d.events = append(d.events, fmt.Sprintf("%s %s %s: %s", event.Reason, event.InvolvedObject.Kind, event.InvolvedObject.Name, event.Message))
	d.events = d.events[max(0, len(d.events)-eventsToKeep):]
}

// missed shows the last known state before a stage that was not reached.
func (d *demo) missed(s stage, cause error) error {
	d.line("  %s  %s", d.paint(red, "missed"), stageNames[s])
	d.line("")
	d.line("Last seen:")
	for _, line := range d.journey.lastSeen() {
		d.line("  %s", line)
	}
	d.line("Last events:")
	for _, line := range d.events {
		d.line("  %s", line)
	}
	return cause
}

// printStage writes the line of a stage that was reached.
func (d *demo) printStage(s stage) {
	since := d.journey.reached[s].Sub(d.began).Seconds()
	d.line("  %s  %s  %s", d.paint(faint, fmt.Sprintf("%6.1f s", since)), d.paint(green, fmt.Sprintf("%-13s", stageNames[s])), d.detail(s))
	switch s {
	case launched:
		for _, why := range d.why() {
			d.line("            %-13s  %s", "", d.paint(cyan, why))
		}
	case nodeEmpty:
		d.line("            %-13s  %s", "", d.paint(cyan, fmt.Sprintf(
			"it stays %.0f s (consolidateAfter), should pods return", demoConsolidateAfter.Seconds())))
	}
}

// table summarizes the round trip.
func (d *demo) table() {
	d.line("%s", d.paint(bold, fmt.Sprintf("  %-14s %8s %8s", "Stage", "after", "took")))
	before := d.began
	for s := range stage(stages) {
		at := d.journey.reached[s]
		d.line("  %-14s %6.1f s %6.1f s", stageNames[s], at.Sub(d.began).Seconds(), max(0, at.Sub(before).Seconds()))
		if at.After(before) {
			before = at
		}
	}
	d.line("%s", d.paint(green, fmt.Sprintf("Every stage was reached, in %.1f s.", before.Sub(d.began).Seconds())))
}

// errInterrupted means that the user ended the command before it was done.
var errInterrupted = errors.New("interrupted")
