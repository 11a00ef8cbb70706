// Command controlplane is a Kubernetes control plane in one binary. Its first argument selects etcd, kube-apiserver, kube-scheduler,
// kube-controller-manager or kwok, which simulates the kubelets of nodes that do not exist. With the argument oracle, it returns the verdicts of
// kube-scheduler's filter plugins on pods and nodes, without a cluster.
//
// It exists so that a playground and the tests need one local file and no cluster, container or download. Package tenon.sh/playground decides
// which processes run, and with which flags, certificates and ports.
package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	_ "time/tzdata" // CronJobs may name a time zone, and the machine may have no time zone data

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// commands holds the function of each name; its result is the exit status. Each of the Kubernetes commands registers process-wide signal
// handlers and feature gates, and a second one would panic. So only the requested command is built.
var commands = map[string]func(args []string) int{
	"etcd":                    runEtcd,
	"kube-apiserver":          cobraCommand(apiserver.NewAPIServerCommand),
	"kube-scheduler":          cobraCommand(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kube-controller-manager": cobraCommand(controllermanager.NewControllerManagerCommand),
	"kwok":                    runKWOK,
	"oracle":                  runOracle,
}

// order lists the names for users, in the order in which the programs start. oracle is no part of a cluster.
var order = []string{"etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager", "kwok", "oracle"}

func main() {
	if len(os.Args) < 2 || !slices.Contains(order, os.Args[1]) {
		fmt.Fprintf(os.Stderr, "usage: controlplane %s [flags]\n", strings.Join(order, "|"))
		os.Exit(2)
	}
	if err := errors.Join(checkVersion(), followParent()); err != nil {
		fmt.Fprintf(os.Stderr, "controlplane %s: %v\n", os.Args[1], err)
		os.Exit(2)
	}
	// The commands read os.Args themselves. Each expects its own name as the first argument.
	os.Args = os.Args[1:]
	os.Exit(commands[os.Args[0]](os.Args))
}

func cobraCommand(build func() *cobra.Command) func([]string) int {
	return func([]string) int { return cli.Run(build()) }
}

// runEtcd returns only after etcd was stopped. After an error, etcd ends the process itself.
func runEtcd(args []string) int {
	etcdmain.Main(args)
	return 0
}
