package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/scenario"
	"tenon.sh/uninstall"
)

// uninstallOptions are the flags of uninstall.
type uninstallOptions struct {
	liveOptions
	controller   ControllerOptions
	keep, yes    bool
	timeout      time.Duration
	drainTimeout time.Duration
}

func newUninstall() *cobra.Command {
	o := uninstallOptions{controller: DefaultControllerOptions()}
	command := &cobra.Command{
		Use:         "uninstall",
		Annotations: map[string]string{cleansUp: "true"},
		Short:       "Remove pools, claims, machines and classes from a cluster, so that no finalizer and no machine is left",
		Long: `Deletes the NodePools, drains and terminates the machines of all NodeClaims, and deletes the node classes with what was made
for them in the account. With --keep-machines the machines and their nodes stay: they lose their finalizers, and run on
without anybody looking after them.

It prints what it will do, and does it with --yes. A controller that runs does the draining; otherwise this command does it
itself, under the controller's Lease. It may be interrupted and run again. PodDisruptionBudgets are respected, unless
--drain-timeout says for how long. Finalizers of others are named and left alone, as are the CRDs and the Helm release, which
go last: helm uninstall.

How to reach the cloud is taken from flags and the environment, and else from the controller's Deployment; credentials are
those of whoever runs the command.`,
		Example: `  tenon uninstall
  tenon uninstall --yes
  tenon uninstall --keep-machines --yes`,
		Args: noArgs,
		RunE: func(command *cobra.Command, _ []string) error { return o.run(command) },
	}
	flags := command.Flags()
	flags.BoolVar(&o.keep, "keep-machines", false, "leave machines and nodes running, with nobody looking after them")
	flags.BoolVarP(&o.yes, "yes", "y", false, "do it, rather than say what would be done")
	flags.DurationVar(&o.timeout, "timeout", 30*time.Minute, "give up after so long, and say what is left; 0 for never")
	flags.DurationVar(&o.drainTimeout, "drain-timeout", 0, "delete pods that have not left their node after so long, whatever protects them; 0 for never")
	o.liveOptions.addFlags(flags)
	o.controller.addCloudFlags(flags)
	return command
}

func (o *uninstallOptions) run(command *cobra.Command) error {
	ctx, out := command.Context(), newTerminal(command.OutOrStdout())
	config, err := o.config()
	if err != nil {
		return err
	}
	in, err := findInstallation(ctx, config, o.controllerNamespace)
	if err != nil {
		return err
	}
	stock, err := newStock(config)
	if err != nil {
		return err
	}
	if err := in.complete(command.Flags(), &o.controller, stock.groups(ctx)); err != nil {
		return err
	}
	if err := o.checkCluster(command, in); err != nil {
		return err
	}
	inventory, err := stock.take(ctx, classKindsOf(o.controller.CloudProvider))
	if err != nil {
		return err
	}
	bill := o.bill(ctx, config, inventory)
	out.lines(o.announcement(in, inventory, bill, config.Host))
	if !o.yes {
		return errors.New("nothing was changed: add --yes to do this")
	}
	quietLibraries()
	w := &winder{options: o, config: config, stock: stock, in: in, out: out}
	if err := w.run(ctx); err != nil {
		return interruptedOr(ctx, err)
	}
	out.lines(o.ending(in, w, bill))
	return w.strangers()
}

// checkCluster refuses an uncertain cluster name in AWS, because everything with its tag is removed.
func (o *uninstallOptions) checkCluster(command *cobra.Command, in *installation) error {
	given := o.controller.ClusterName
	if o.controller.CloudProvider != cloudAWS || command.Flags().Changed("cluster-name") {
		return nil
	}
	name, found := in.lookup("CLUSTER_NAME")
	switch {
	case !found || name == "":
		return fmt.Errorf("no Deployment says the cluster's name in AWS, and CLUSTER_NAME (%s) may be that of another: say --cluster-name", given)
	case name != given:
		return fmt.Errorf("CLUSTER_NAME is %s, and Deployment %s/%s manages %s: unset it, or say --cluster-name", given, in.deployment.Namespace, in.deployment.Name, name)
	}
	return nil
}

// bill is the cost of the claims' machines, in USD per hour. The price of a row is 0 if it is unknown.
type bill struct {
	rows  []billRow
	total float64
	// unpriced counts machines of unknown price. `about` is true if some prices are from other zones or regions.
	unpriced int
	about    bool
}

type billRow struct {
	node, kind, zone string
	price            float64
}

// bill reads the known prices of the machines. Unknown prices are no error.
func (o *uninstallOptions) bill(ctx context.Context, config *rest.Config, inv *uninstall.Inventory) bill {
	var out bill
	var snapshot engine.Snapshot
	if documents, err := o.documents(ctx, newTerminal(io.Discard)); err == nil {
		if reading, err := scenario.Read(scenario.Input{Documents: documents, Now: time.Now().UTC()}); err == nil {
			snapshot, out.about = *reading.Snapshot, reading.Elsewhere
		}
	}
	book, claimed := inventory.NewPriceBook(&snapshot), map[string]bool{}
	add := func(node string, labels map[string]string, class *v1.NodeClassReference) {
		price, known := book.Price(labels, class)
		if !known {
			price = priceElsewhere(&snapshot, inventory.MachineOffering(labels))
			out.about = out.about || price > 0
		}
		out.add(node, inventory.MachineOffering(labels), price)
	}
	for _, c := range inv.Claims {
		claimed[c.Status.ProviderID] = true
		if inv.Serves(c.Spec.NodeClassRef) {
			add(cmp.Or(c.Status.NodeName, c.Name+" (no node)"), c.Labels, c.Spec.NodeClassRef)
		}
	}
	for _, n := range inv.Nodes { // nodes that an interrupted run has released
		if o.keep && n.Labels[v1.NodePoolLabelKey] != "" && !claimed[n.Spec.ProviderID] {
			add(n.Name, n.Labels, nil)
		}
	}
	return out
}

// priceElsewhere returns the price of the type's machines in any zone. It returns 0 if no catalog has it. The program's built-in prices are from
// one region.
func priceElsewhere(s *engine.Snapshot, id engine.OfferingID) float64 {
	for i := range s.Classes {
		for _, t := range s.Classes[i].InstanceTypes {
			for _, o := range t.Offerings {
				if t.Name == id.InstanceType && o.CapacityType == id.CapacityType && o.Price > 0 {
					return o.NodePrice(s.NodeOverheadPrice)
				}
			}
		}
	}
	return 0
}

func (b *bill) add(node string, id engine.OfferingID, price float64) {
	if price == 0 {
		b.unpriced++
	}
	b.total += price
	b.rows = append(b.rows, billRow{node, id.InstanceType, id.Zone, price})
}

func (b bill) String() string {
	text := fmt.Sprintf("$%.2f per hour", b.total)
	if b.about {
		text = "about " + text
	}
	switch {
	case b.unpriced == len(b.rows) && b.unpriced > 0:
		return "price unknown"
	case b.unpriced > 0:
		text += fmt.Sprintf(", and %s of unknown price", count(b.unpriced, "machine"))
	}
	return text
}

// announcement describes the planned steps.
func (o *uninstallOptions) announcement(in *installation, inv *uninstall.Inventory, bill bill, host string) []string {
	var pools, classes, claims []string
	for _, p := range inv.Pools {
		if inv.Serves(p.Spec.Template.Spec.NodeClassRef) {
			pools = append(pools, p.Name)
		}
	}
	for _, c := range inv.Claims {
		if inv.Serves(c.Spec.NodeClassRef) {
			claims = append(claims, c.Name)
		}
	}
	for _, c := range inv.Classes {
		classes = append(classes, c.Ref.Kind+" "+c.Ref.Name)
	}
	lines := []string{"In the cluster at " + host + " this will"}
	if o.controller.CloudProvider == cloudAWS {
		lines[0] = "In the cluster at " + host + ", which is " + o.controller.ClusterName + " in AWS, this will"
	}
	if o.keep {
		lines = append(lines,
			fmt.Sprintf("  take the finalizers off %s and their nodes, and delete the claims; the machines run on: %s", count(len(claims), "NodeClaim"), bill),
			"  delete "+named("NodePool", pools), "  delete "+"the node classes: "+listed(classes)+"; instance profiles that machines use stay")
	} else {
		lines = append(lines, "  delete "+named("NodePool", pools),
			fmt.Sprintf("  drain and terminate the machines of %s: %s", count(len(claims), "NodeClaim"), bill),
			"  delete "+"the node classes: "+listed(classes)+", with launch templates and instance profiles that were made for them")
		if o.drainTimeout > 0 {
			lines = append(lines, fmt.Sprintf("  delete pods that have not left after %s, whatever protects them", o.drainTimeout))
		}
	}
	lines = append(lines, o.who(in))
	for _, h := range uninstall.Strangers(inv) {
		lines = append(lines, "Left alone: "+heldText(h))
	}
	return lines
}

// who names the process that makes the steps.
func (o *uninstallOptions) who(in *installation) string {
	switch {
	case in.holder == "" && !in.deployed():
		return "No controller runs: this command does it."
	case in.holder == "" && !o.keep:
		return fmt.Sprintf("No controller holds the Lease: this command does it, beside Deployment %s/%s if that leads without one.", in.deployment.Namespace, in.deployment.Name)
	case !o.keep:
		return fmt.Sprintf("The controller that holds Lease %s/%s (%s) drains and terminates; this command takes over if it ends.", in.lease.Namespace, in.lease.Name, in.holder)
	case in.deployed():
		return fmt.Sprintf("Before that it scales Deployment %s/%s to 0: its controller would terminate machines without claims.", in.deployment.Namespace, in.deployment.Name)
	}
	return fmt.Sprintf("Lease %s/%s is held by %s: this waits for it. If that is not a controller that has just ended, stop it.", in.lease.Namespace, in.lease.Name, in.holder)
}

func heldText(h uninstall.Held) string {
	if len(h.By) == 0 {
		return fmt.Sprintf("%s %s, which belongs to another provider", h.Kind, h.Name)
	}
	return fmt.Sprintf("%s %s, which is held by %s", h.Kind, h.Name, strings.Join(h.By, ", "))
}

// listed returns the sorted names, "none" if there are none.
func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(slices.Values(names)), ", ")
}

// named returns a count of things and their names.
func named(thing string, names []string) string {
	text := count(len(names), thing)
	if len(names) > 0 {
		text += ": " + strings.Join(slices.Sorted(slices.Values(names)), ", ")
	}
	return text
}

// ending describes the state after the removal.
func (o *uninstallOptions) ending(in *installation, w *winder, bill bill) []string {
	left := "No NodePool, NodeClaim, node class or finalizer of the autoscaler is left"
	lines := []string{left + ", and no machine" + w.except() + "."}
	if o.keep {
		lines = []string{left + w.except() + "."}
		if len(bill.rows) > 0 {
			lines = append(lines, "Nobody replaces, repairs or stops these machines any more ("+bill.String()+"):")
		}
		for _, r := range bill.rows {
			price := "price unknown"
			if r.price > 0 {
				price = fmt.Sprintf("$%.4f/h", r.price)
			}
			lines = append(lines, fmt.Sprintf("  %s  %s  %s  %s", r.node, r.kind, r.zone, price))
		}
		for _, what := range slices.Sorted(maps.Keys(w.stays)) {
			lines = append(lines, "Stays in the account, because machines use it: "+what)
		}
	}
	lines = append(lines, w.loose()...)
	remove := "helm uninstall karpenter"
	if in.deployment != nil {
		remove = fmt.Sprintf("helm uninstall %s -n %s", in.deployment.Labels["app.kubernetes.io/instance"], in.deployment.Namespace)
		if in.deployment.Labels["app.kubernetes.io/instance"] == "" {
			remove = fmt.Sprintf("kubectl delete deployment %s -n %s", in.deployment.Name, in.deployment.Namespace)
		}
	}
	if uninstall.Shared(w.last) {
		return append(lines, "What remains is the program: "+remove+". The CRDs have to stay: NodePools and NodeClaims of another provider would go with them, and their machines")
	}
	return append(lines, "What remains is the program and its CRDs: "+remove+"; kubectl delete crd nodepools."+v1.Group+" nodeclaims."+v1.Group+" and those of the node classes")
}
