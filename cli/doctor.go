package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tenon.sh/doctor"
	"tenon.sh/provider"
	"tenon.sh/provider/aws/examine"
)

// doctorOptions are the flags of doctor.
type doctorOptions struct {
	liveOptions
	controller ControllerOptions
	output     string
	all        bool
	cloud      bool
}

// errProblems ends doctor after it has printed problems.
var errProblems = errors.New("there are problems")

// errChangesNothing prevents calls that would change something in a cloud.
var errChangesNothing = errors.New("tenon doctor changes nothing")

// unexaminedError is the reason why a cluster cannot be examined.
type unexaminedError struct{ err error }

func (e *unexaminedError) Error() string { return e.err.Error() }
func (e *unexaminedError) Unwrap() error { return e.err }

func newDoctor() *cobra.Command {
	o := doctorOptions{controller: DefaultControllerOptions()}
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what keeps the autoscaler from working in a cluster, and say what to do about it",
		Long: `Looks at the definitions of our kinds, the controller and other autoscalers beside it, its rights, webhooks, node classes,
pools that can never launch, claims, nodes and removals that do not get on, DaemonSets that fit no pool, and
PodDisruptionBudgets that let no pod go. Of AWS it asks which actions are allowed, whether the queue of interruptions brings
notices, and whether subnets have addresses; of Azure, who asks and what may be done where, whether quotas have room, and whether
what node classes name is there; of Cluster API, whether the management cluster can be reached with the rights that it
takes, and what each node class makes of its MachineDeployments. Nothing is changed: EC2 is asked to try only.

What the one who runs it may not see is said. How to reach the cloud is taken from flags and the environment, and else from
the controller's Deployment.

The exit status is 0 if there is no problem, 1 if there is one, and 2 if the cluster cannot be looked at.`,
		Example: `  tenon doctor
  tenon doctor -o json
  kubectl exec -n kube-system deploy/karpenter -- tenon doctor`,
		Args: noArgs,
		RunE: func(command *cobra.Command, _ []string) error { return o.run(command) },
	}
	flags := command.Flags()
	addOutputFlag(flags, &o.output)
	flags.BoolVar(&o.all, "all", false, "say as well what is as it should be")
	flags.BoolVar(&o.cloud, "cloud", true, "look at the cloud as well")
	o.liveOptions.addFlags(flags)
	o.controller.addCloudFlags(flags)
	return command
}

func (o *doctorOptions) run(command *cobra.Command) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	quietLibraries()
	shown := newProgress(command.ErrOrStderr())
	findings, err := o.examine(command, shown)
	shown.end()
	if err != nil {
		return interruptedOr(command.Context(), &unexaminedError{err})
	}
	if o.output != outputText {
		record := struct {
			Worst    provider.Level     `json:"worst"`
			Findings []provider.Finding `json:"findings"`
		}{doctor.Worst(findings), findings}
		if err := writeAs(command.OutOrStdout(), o.output, func(out io.Writer) error { return writeRecord(out, "Examination", record) }); err != nil {
			return err
		}
	} else {
		o.print(newTerminal(command.OutOrStdout()), findings)
	}
	if doctor.Worst(findings) == provider.Problem {
		return errProblems
	}
	return nil
}

// examine examines the cluster and its cloud.
func (o *doctorOptions) examine(command *cobra.Command, shown *progress) ([]provider.Finding, error) {
	ctx := command.Context()
	config, err := o.config()
	if err != nil {
		return nil, err
	}
	g, err := newGatherer(config)
	if err != nil {
		return nil, err
	}
	picture, err := g.gather(ctx, o, command, shown)
	if err != nil {
		return nil, err
	}
	shown.say("planning for the pods that wait, and judging what was read")
	findings := doctor.Examine(picture)
	if o.cloud && o.controller.CloudProvider != cloudKWOK {
		shown.say("asking the cloud (%s)", o.controller.CloudProvider)
	}
	if o.cloud && o.controller.CloudProvider == cloudAWS {
		findings = append(findings, o.examineAWS(ctx, picture.Classes)...)
	}
	if o.cloud && o.controller.CloudProvider == cloudAzure {
		findings = append(findings, o.examineAzure(ctx, picture, g.installed)...)
	}
	if o.cloud && o.controller.CloudProvider == cloudClusterAPI {
		findings = append(findings, o.examineClusterAPI(ctx, g)...)
	}
	return findings, nil
}

func (o *doctorOptions) examineAWS(ctx context.Context, classes []provider.Class) []provider.Finding {
	var examiner provider.Examiner
	examiner, err := examine.Connect(ctx, "karpenter.sh-"+buildVersion(), examine.Config{
		Cluster: o.controller.ClusterName, Queue: o.controller.InterruptionQueue, Isolated: o.controller.IsolatedVPC,
	})
	if err != nil {
		return []provider.Finding{{Level: provider.Warning, Check: "aws", Says: "AWS could not be looked at: " + oneLine(err), Do: "set AWS_REGION and credentials, or --cloud=false"}}
	}
	return examiner.Examine(ctx, classes)
}

// print writes findings, in the order of the checks. It only counts findings that are OK, unless all is set.
func (o *doctorOptions) print(t *terminal, findings []provider.Finding) {
	counts := map[provider.Level]int{}
	for _, f := range findings {
		counts[f.Level]++
		if f.Level == provider.OK && !o.all {
			continue
		}
		mark := map[provider.Level]string{provider.OK: t.paint(green, "ok     "), provider.Warning: t.paint(cyan, "warning"), provider.Problem: t.paint(red, "PROBLEM")}[f.Level]
		what := f.Check
		if f.Object != "" {
			what = f.Object
		}
		t.line("%s  %s: %s", mark, t.paint(bold, what), f.Says)
		if f.Do != "" {
			t.line("         → %s", f.Do)
		}
	}
	t.line("%s", strings.Join([]string{count(counts[provider.Problem], "problem"), count(counts[provider.Warning], "warning"), fmt.Sprintf("%d ok", counts[provider.OK])}, ", "))
}
