package cli

import (
	"context"

	"github.com/spf13/cobra"

	"tenon.sh/provider/catalog"
)

func newPlayground() *cobra.Command {
	options := localOptions{}
	command := &cobra.Command{
		Use:         "playground",
		Annotations: map[string]string{cleansUp: "true"},
		Short:       "Run a local cluster with Tenon and a simulated cloud until Ctrl-C",
		Long: `Starts etcd, kube-apiserver, kube-scheduler, kube-controller-manager and KWOK on this machine, installs Tenon's kinds,
starts Tenon with a simulated cloud, and prints a kubeconfig. Everything is kept in one folder; starting there again
continues with its cluster.`,
		Args: noArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return runPlayground(command.Context(), options, newTerminal(command.OutOrStdout()))
		},
	}
	flags := command.Flags()
	flags.StringVar(&options.dir, "dir", ".playground", "folder for the cluster's data, certificates, kubeconfig and logs")
	flags.StringVar(&options.gates, "kubernetes-feature-gates", "", "feature gates of Kubernetes itself, GenericWorkload=true,GangScheduling=true for example")
	flags.StringVar(&options.apis, "kubernetes-apis", "", "APIs that Kubernetes does not serve by default, scheduling.k8s.io/v1alpha2=true for example")
	flags.BoolVar(&options.controller, "controller", true, "start Tenon too; false leaves it to you")
	flags.StringVar(&options.catalog, "catalog", catalog.NameAWS, "what the simulated cloud sells: aws (EC2's types and prices), azure (Azure's) or kwok (regular sizes)")
	options.addFlags(flags)
	return command
}

func runPlayground(ctx context.Context, options localOptions, t *terminal) error {
	local, err := startLocal(ctx, options, t)
	if err != nil {
		return err
	}
	t.line("")
	local.introduce(t)
	if address, err := dashboardOf(ctx, local.playground.Kubeconfig(), t); err == nil {
		t.line("Its nodes, what waits and why are at %s", t.paint(bold, address))
	} else if ctx.Err() == nil {
		t.line("note: no dashboard: %s", oneLine(err))
	}
	err = local.stay(ctx)
	if stopErr := local.stop(t); err == nil {
		err = stopErr
	}
	return err
}
