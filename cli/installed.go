package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// installation is the Tenon or Karpenter controller that was found in a cluster.
type installation struct {
	// lease is the newest Lease for leader election, nil if there is none. holder is its present holder, "" if there is none.
	lease  *coordinationv1.Lease
	holder string
	// deployment runs the controller; nil if none is found.
	deployment *appsv1.Deployment
	// others are the namespaces with a Lease of the same name that a user, not a controller, may have made.
	others []string
}

// findInstallation finds the Lease, and the Deployment whose pods hold it or that has the labels of the chart.
func findInstallation(ctx context.Context, config *rest.Config, namespace string) (*installation, error) {
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("look for the controller: %w", err)
	}
	in := &installation{}
	if in.lease, in.others, err = findLease(ctx, api, namespace); err != nil {
		return nil, err
	}
	in.holder = holderOf(in.lease, time.Now())
	list, err := api.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("look for the controller's Deployment: %w", err)
	}
	if in.deployment, err = in.ownerOf(ctx, api, list.Items); in.deployment != nil || err != nil {
		return in, err
	}
	in.deployment = in.labelled(list.Items)
	return in, nil
}

// labelled returns the Deployment with the chart's labels. It prefers the Deployment in the Lease's namespace. If the Lease has a holder, it
// considers only this namespace. Without a holder it considers any namespace, because a controller can lead without a Lease or with a Lease of
// another name.
func (in *installation) labelled(deployments []appsv1.Deployment) (found *appsv1.Deployment) {
	for i := range deployments {
		d := &deployments[i]
		switch beside := in.lease == nil || d.Namespace == in.lease.Namespace; {
		case !isAutoscaler(d):
		case beside:
			return d
		case in.holder == "" && found == nil:
			found = d
		}
	}
	return found
}

// deployed reports whether the Deployment runs controllers.
func (in *installation) deployed() bool {
	return in.deployment != nil && (in.deployment.Spec.Replicas == nil || *in.deployment.Spec.Replicas > 0)
}

// holderOf returns the present holder of a lease. It returns "" if there is none.
func holderOf(lease *coordinationv1.Lease, now time.Time) string {
	if lease == nil || lease.Spec.HolderIdentity == nil || lease.Spec.RenewTime == nil {
		return ""
	}
	length := 15 * time.Second
	if s := lease.Spec.LeaseDurationSeconds; s != nil {
		length = time.Duration(*s) * time.Second
	}
	if now.Sub(lease.Spec.RenewTime.Time) > length {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// ownerOf returns the Deployment of the pod that holds the lease. It returns nil if there is none.
func (in *installation) ownerOf(ctx context.Context, api kubernetes.Interface, deployments []appsv1.Deployment) (*appsv1.Deployment, error) {
	if in.holder == "" {
		return nil, nil
	}
	name, _, _ := strings.Cut(in.holder, "_")
	pod, err := api.CoreV1().Pods(in.lease.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for the leader: %w", err)
	}
	for i := range deployments {
		d := &deployments[i]
		selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
		if err == nil && d.Namespace == pod.Namespace && selector.Matches(labels.Set(pod.Labels)) {
			return d, nil
		}
	}
	return nil, nil
}

// isAutoscaler reports whether a Deployment is Tenon's or Karpenter's, by the label of the chart.
func isAutoscaler(d *appsv1.Deployment) bool {
	return slices.Contains([]string{"karpenter", "tenon"}, d.Spec.Template.Labels["app.kubernetes.io/name"])
}

// lookup returns a variable of the Deployment's containers. If a container has a variable twice, it uses the last one, as the kubelet does.
func (in *installation) lookup(name string) (string, bool) {
	if in.deployment == nil {
		return "", false
	}
	for _, c := range in.deployment.Spec.Template.Spec.Containers {
		for _, e := range slices.Backward(c.Env) {
			if e.Name == name && e.ValueFrom == nil {
				return e.Value, true
			}
		}
	}
	return "", false
}

// settings returns opt with the settings that need rights. It reads them from the Deployment, or from the environment if there is no
// Deployment, as in the controller's own pod.
func (in *installation) settings(opt *ControllerOptions) (*ControllerOptions, error) {
	lookup := os.LookupEnv
	if in.deployment != nil {
		lookup = in.lookup
	}
	out, flags := *opt, pflag.NewFlagSet("", pflag.ContinueOnError)
	out.addRightsFlags(flags)
	return &out, readEnvironment(flags, lookup)
}

// complete sets options that neither flags nor the environment give from the installed controller. If nothing names the cloud, complete takes
// the cloud whose kind of node class is in use.
func (in *installation) complete(flags *pflag.FlagSet, opt *ControllerOptions, groups []string) error {
	lookup := func(name string) (string, bool) {
		if v, found := os.LookupEnv(name); found && v != "" {
			return v, true
		}
		return in.lookup(name)
	}
	if err := readEnvironment(flags, lookup); err != nil {
		return err
	}
	_, named := lookup(environment()["cloud-provider"])
	if !named && !flags.Changed("cloud-provider") {
		for _, cloud := range clouds() {
			if slices.Contains(groups, classKindsOf(cloud)[0].Group) {
				opt.CloudProvider = cloud
			}
		}
	}
	opt.LeaderElectionNamespace = "kube-system"
	if in.lease != nil {
		opt.LeaderElectionNamespace = in.lease.Namespace
	}
	return opt.check()
}

// addCloudFlags adds the flags that select the machines' cloud and its connection.
func (o *ControllerOptions) addCloudFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.CloudProvider, "cloud-provider", o.CloudProvider, "the cloud that machines run in: kwok, aws, azure or clusterapi")
	o.awsFlags.addFlags(flags)
	o.azureFlags.addFlags(flags)
	o.clusterAPIFlags.addFlags(flags)
}
