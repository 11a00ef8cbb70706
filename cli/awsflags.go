package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"tenon.sh/provider/aws"
)

// The clouds.
const (
	cloudKWOK       = "kwok"
	cloudAWS        = "aws"
	cloudAzure      = "azure"
	cloudClusterAPI = "clusterapi"
)

// awsFlags are the options of the AWS provider. Names and defaults are those of Karpenter.
type awsFlags struct {
	ClusterName                      string
	ClusterEndpoint, ClusterCABundle string
	IsolatedVPC, EKSControlPlane     bool
	VMMemoryOverhead                 float64
	InterruptionQueue                string
	ReservedENIs                     int
	DisableDryRun, EnableZonalShift  bool
	InstanceStatusDryRun             bool
	AMIRefresh, SubnetRefresh        time.Duration
	AWSFeatureGates                  map[string]bool
}

func defaultAWSFlags() awsFlags {
	return awsFlags{VMMemoryOverhead: aws.DefaultMemoryOverhead, AMIRefresh: time.Minute, SubnetRefresh: time.Minute, AWSFeatureGates: map[string]bool{}}
}

// awsFlagNames returns the flags of the AWS provider; their environment variables have the same names.
func awsFlagNames() []string {
	return strings.Fields(`cluster-name cluster-endpoint cluster-ca-bundle isolated-vpc eks-control-plane vm-memory-overhead-percent
		interruption-queue reserved-enis disable-dry-run enable-zonal-shift ami-refresh-interval subnet-refresh-interval aws-feature-gates`)
}

func (o *awsFlags) addFlags(flags *pflag.FlagSet) {
	defer heading(flags, "Flags of AWS")()
	flags.StringVar(&o.ClusterName, "cluster-name", o.ClusterName, "name of the cluster in AWS; everything that is made is tagged with it")
	flags.StringVar(&o.ClusterEndpoint, "cluster-endpoint", o.ClusterEndpoint, "URL of the API server as machines see it; EKS is asked if empty")
	flags.StringVar(&o.ClusterCABundle, "cluster-ca-bundle", o.ClusterCABundle, "certificate authorities of the API server in base64; the controller's own if empty")
	flags.BoolVar(&o.IsolatedVPC, "isolated-vpc", o.IsolatedVPC, "services of AWS without an endpoint in the network cannot be reached")
	flags.BoolVar(&o.EKSControlPlane, "eks-control-plane", o.EKSControlPlane, "ask EKS rather than the API server for the version of Kubernetes")
	flags.Float64Var(&o.VMMemoryOverhead, "vm-memory-overhead-percent", o.VMMemoryOverhead, "the part of a machine's memory that its hypervisor takes, 0.075 for 7.5 %")
	flags.StringVar(&o.InterruptionQueue, "interruption-queue", o.InterruptionQueue, "name of the SQS queue with notices of interruptions; empty for none")
	flags.IntVar(&o.ReservedENIs, "reserved-enis", o.ReservedENIs, "network interfaces of each machine that are not for pods")
	flags.BoolVar(&o.DisableDryRun, "disable-dry-run", o.DisableDryRun, "do not try, before a class is ready, whether machines may be started")
	flags.BoolVar(&o.EnableZonalShift, "enable-zonal-shift", o.EnableZonalShift, "heed zonal shifts of the cluster")
	flags.BoolVar(&o.InstanceStatusDryRun, "instance-status-dry-run", o.InstanceStatusDryRun, "only count machines that EC2's own checks find broken, and leave them running")
	flags.DurationVar(&o.AMIRefresh, "ami-refresh-interval", o.AMIRefresh, "how long images are believed that a class selects")
	flags.DurationVar(&o.SubnetRefresh, "subnet-refresh-interval", o.SubnetRefresh, "how long subnets are believed that a class selects")
	flags.Var(gatesValue{&o.AWSFeatureGates}, "aws-feature-gates", "features of the AWS provider to switch on or off: NodeClassCEL=true,DRANVIDIAGPU=true,DRAEFA=true")
}

// check returns an error about a wrong option of the AWS provider, with the flag's name.
func (o *awsFlags) check() error {
	switch {
	case o.ClusterName == "":
		return fmt.Errorf("%s is empty: the aws provider needs the name of the cluster", flagAndVariable("cluster-name"))
	case o.VMMemoryOverhead < 0 || o.VMMemoryOverhead >= 1:
		return fmt.Errorf("%s is %v: it must be a part of one, such as 0.075", flagAndVariable("vm-memory-overhead-percent"), o.VMMemoryOverhead)
	case o.ReservedENIs < 0:
		return fmt.Errorf("%s is %d: it must not be negative", flagAndVariable("reserved-enis"), o.ReservedENIs)
	case o.AMIRefresh < time.Minute:
		return fmt.Errorf("%s is %s: it must be a minute at least", flagAndVariable("ami-refresh-interval"), o.AMIRefresh)
	case o.SubnetRefresh < time.Minute:
		return fmt.Errorf("%s is %s: it must be a minute at least", flagAndVariable("subnet-refresh-interval"), o.SubnetRefresh)
	}
	return nil
}

// config returns the AWS provider's configuration from the flags.
func (o *awsFlags) config() aws.Config {
	overhead := o.VMMemoryOverhead
	return aws.Config{
		ClusterName: o.ClusterName, ClusterEndpoint: o.ClusterEndpoint, ClusterCABundle: o.ClusterCABundle,
		IsolatedVPC: o.IsolatedVPC, EKSControlPlane: o.EKSControlPlane, MemoryOverhead: &overhead,
		InterruptionQueue: o.InterruptionQueue, ReservedENIs: o.ReservedENIs, DisableDryRun: o.DisableDryRun,
		EnableZonalShift: o.EnableZonalShift, StatusDryRun: o.InstanceStatusDryRun, NodeClassCEL: o.AWSFeatureGates["NodeClassCEL"],
		DRANVIDIAGPU: o.AWSFeatureGates["DRANVIDIAGPU"], DRAEFA: o.AWSFeatureGates["DRAEFA"],
		AMIRefresh: o.AMIRefresh, SubnetRefresh: o.SubnetRefresh,
	}
}
