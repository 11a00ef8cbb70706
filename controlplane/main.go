// Command controlplane is a Kubernetes control plane in one binary: by its first argument it is etcd, kube-apiserver,
// kube-scheduler, kube-controller-manager or kwok (which plays the kubelets of nodes that do not exist). As oracle it answers
// what kube-scheduler's filter plugins say of a pod and a node, without any cluster.
//
// It exists so that a playground and the tests need one local file and no cluster, container or download. Which processes run,
// with which flags, certificates and ports, is decided by the package tenon.sh/playground; nothing of that is known here.
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

// commands holds what each name runs; the result is the exit status. Building one of the Kubernetes commands registers
// process-wide signal handlers and feature gates, and a second one would panic: so only the one that was asked for is built.
var commands = map[string]func(args []string) int{
	"etcd":                    runEtcd,
	"kube-apiserver":          cobraCommand(apiserver.NewAPIServerCommand),
	"kube-scheduler":          cobraCommand(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kube-controller-manager": cobraCommand(controllermanager.NewControllerManagerCommand),
	"kwok":                    runKWOK,
	"oracle":                  runOracle,
}

// order is how the names are listed to the user: as they start; oracle is no part of a cluster.
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
	// The commands read os.Args themselves; each shall believe it is a program of its own.
	os.Args = os.Args[1:]
	os.Exit(commands[os.Args[0]](os.Args))
}

func cobraCommand(build func() *cobra.Command) func([]string) int {
	return func([]string) int { return cli.Run(build()) }
}

// runEtcd returns only when etcd was stopped; on an error etcd ends the process itself.
func runEtcd(args []string) int {
	etcdmain.Main(args)
	return 0
}
