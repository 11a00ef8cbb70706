package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/explain"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/overlay"
	"tenon.sh/provider/catalog"
	"tenon.sh/scenario"
)

// savingsOptions are the flags of savings.
type savingsOptions struct {
	planOptions
	catalog    string
	clusterAPI clusterAPIFlags
}

func newSavings() *cobra.Command {
	o := savingsOptions{planOptions: planOptions{engineFlags: defaultEngineFlags()}}
	command := &cobra.Command{
		Use:   "savings",
		Short: "Compare the bill of a cluster with what Tenon's plan for the same pods would cost",
		Long: `Compares what the nodes of each pool cost now with what a plan for the very same pods would cost, and with the amount that no
plan can go below; says what would be removed first, and why the rest stays. It needs no Tenon in the cluster, reads only,
and changes nothing: run it beside Karpenter, Cluster Autoscaler or nothing at all.

Prices are those of the controller's catalog, or of the one that -f holds, or of a built-in one. Without NodePools in the
cluster, each group of nodes (the node group of EKS, GKE, AKS or kops, by its label) counts as a pool with the group's labels
and taints, which may buy what --catalog or --instance-types names, of the group's architectures and capacity types. Where there
are MachineDeployments of Cluster API, in the cluster, in that of --cluster-api-kubeconfig or in -f, each of them is a pool of what
it makes.`,
		Example: `  tenon savings
  kubectl get pods,nodes,daemonsets,pdb,pv,pvc,sc -A -o yaml | tenon savings -f -
  kubectl get pods,nodes,machinedeployments,machines,clusters -A -o yaml | tenon savings -f -`,
		Args: noFileArgs,
		RunE: func(command *cobra.Command, _ []string) error { return o.run(command) },
	}
	flags := command.Flags()
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "file or folder of objects, - for standard input; can be repeated")
	o.addChangeFlag(flags)
	o.addCatalogFlags(flags)
	flags.StringVar(&o.catalog, "catalog", "", "built-in catalog to plan with: "+strings.Join(catalog.Names(), ", ")+"; without NodePools that of the nodes' cloud, azure or else aws")
	addOutputFlag(flags, &o.output)
	o.engineFlags.addFlags(flags)
	o.liveOptions.addFlags(flags)
	o.clusterAPI.addFlags(flags)
	o.management = &o.clusterAPI
	return command
}

func (o *savingsOptions) run(command *cobra.Command) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	if o.catalog != "" && o.instanceTypes != "" {
		return errors.New("--catalog and --instance-types say the same thing twice: name one of them")
	}
	if err := o.engineFlags.check(); err != nil {
		return err
	}
	notes := newTerminal(command.ErrOrStderr())
	reading, err := o.readAny(command.Context(), command.InOrStdin(), notes)
	if err != nil {
		return err
	}
	o.override(command.Flags(), &reading.Options, &reading.Snapshot)
	s, err := o.completed(reading)
	if err != nil {
		return err
	}
	account := explain.NewSavings(s, reading.Options)
	if account.NowPerHour == 0 && account.Outside > 0 && len(reading.Snapshot.NodePools) > 0 && len(o.files) > 0 {
		reading.Notes = append(reading.Notes, "no node belongs to a NodePool: leave NodePools out of the files to compare what the nodes cost as they are")
	}
	notes.notes(reading.Notes)
	if o.output != outputText {
		return writeAs(command.OutOrStdout(), o.output, func(out io.Writer) error { return writeRecord(out, "Savings", account) })
	}
	writeAccount(newTerminal(command.OutOrStdout()), account)
	return nil
}

// completed returns the snapshot with the named catalog, and with assumed pools if it has none.
func (o *savingsOptions) completed(reading *scenario.Reading) (*engine.Snapshot, error) {
	s := *reading.Snapshot
	if reading.Made != nil && o.catalog == "" && o.instanceTypes == "" {
		return assumedMachineDeployments(reading)
	}
	types, name, where, err := o.types(&s)
	if err != nil {
		return nil, err
	}
	if len(s.NodePools) > 0 {
		if o.catalog != "" {
			s.Classes = slices.Clone(s.Classes)
			for i := range s.Classes {
				s.Classes[i].InstanceTypes, s.Classes[i].Problem = types, ""
			}
			overlay.Apply(&s)
			reading.Notes = append(reading.Notes, "instance types of all classes: "+name)
		}
		return &s, nil
	}
	if err := assumable(reading); err != nil {
		return nil, err
	}
	known := slices.ContainsFunc(types, func(t engine.InstanceType) bool {
		return slices.ContainsFunc(s.Nodes, func(n *corev1.Node) bool { return inventory.MachineOffering(n.Labels).InstanceType == t.Name })
	})
	if !known {
		reading.Notes = append(reading.Notes, fmt.Sprintf("no node is of a type of %s: name what the cluster's cloud sells with --instance-types", name))
	}
	reading.Notes = append(reading.Notes, "there are no NodePools: each group of nodes counts as a pool that may buy from "+name)
	if where != "" {
		reading.Notes = append(reading.Notes, where)
	}
	return corrected(explain.AssumePools(&s, explain.SoldHere(&s, types))), nil
}

// assumable returns an error if there are no nodes to assume pools for. It removes the note that there are no pools.
func assumable(reading *scenario.Reading) error {
	reading.Notes = slices.DeleteFunc(reading.Notes, func(n string) bool { return strings.Contains(n, "there is no NodePool") })
	if len(reading.Snapshot.Nodes) == 0 {
		return errors.New("there are no nodes to compare")
	}
	return nil
}

// assumedMachineDeployments returns the snapshot with a pool for each MachineDeployment.
func assumedMachineDeployments(reading *scenario.Reading) (*engine.Snapshot, error) {
	if err := assumable(reading); err != nil {
		return nil, err
	}
	made := reading.Made
	if made.Problem != "" {
		return nil, fmt.Errorf("no MachineDeployment can be used: %s", made.Problem)
	}
	reading.Notes = append(append(reading.Notes, made.Notes...),
		"there are no NodePools: each MachineDeployment counts as a pool")
	return corrected(explain.AssumePools(reading.Snapshot, made.InstanceTypes)), nil
}

// corrected applies the snapshot's NodeOverlays to its catalogs.
func corrected(s *engine.Snapshot) *engine.Snapshot {
	overlay.Apply(s)
	return s
}

// types returns the named catalog, or an assumed one if there are no pools. The note names the origin of its figures.
func (o *savingsOptions) types(s *engine.Snapshot) (types []engine.InstanceType, name, note string, err error) {
	if o.instanceTypes != "" {
		types, err = readInstanceTypes(o.instanceTypes)
		return types, o.instanceTypes, "", err
	}
	named := o.catalog
	if named == "" && len(s.NodePools) == 0 {
		named = catalogOfNodes(s.Nodes)
	}
	switch named {
	case "":
		return nil, "", "", nil
	case catalog.NameAWS:
		zones, abroad := scenario.EC2Zones(s, o.region)
		types = catalog.DefaultEC2(zones)
		note = cmp.Or(abroad, "prices are EC2's in us-east-1, and spot prices an estimate: bring your own with --instance-types")
	case catalog.NameAzure:
		place, abroad := scenario.AzurePlaceOf(s, o.region)
		types = catalog.Azure(place.Region, place.Regional)
		note = cmp.Or(abroad, "prices are Azure's in East US: bring your own with --instance-types")
	default:
		if types, err = catalog.ByName(named); err != nil {
			return nil, "", "", fmt.Errorf("--catalog: %w", err)
		}
	}
	return types, fmt.Sprintf("the built-in catalog %q", named), note, nil
}

// catalogOfNodes returns the built-in catalog of the nodes' cloud, EC2's if the nodes do not show a cloud.
func catalogOfNodes(nodes []*corev1.Node) string {
	if slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return strings.HasPrefix(n.Spec.ProviderID, "azure://") }) {
		return catalog.NameAzure
	}
	return catalog.NameAWS
}
