package aws

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/provider"
	"tenon.sh/provider/aws/size"
	"tenon.sh/provider/batch"
)

// DefaultMemoryOverhead is the part of a machine's nominal memory that its hypervisor takes, at most.
const DefaultMemoryOverhead = size.DefaultMemoryOverhead

// Config is what a Provider is made from. The zero value of a setting is its default.
type Config struct {
	// ClusterName is required: it is in the tags of everything that is made.
	ClusterName string
	// ClusterEndpoint and ClusterCABundle (base64) are what machines connect to; EKS is asked for an endpoint that is not
	// given.
	ClusterEndpoint, ClusterCABundle string
	// IsolatedVPC means that services without an endpoint in the network cannot be reached: prices are those that come with
	// the program.
	IsolatedVPC bool
	// EKSControlPlane has EKS asked for the version of Kubernetes rather than the API server.
	EKSControlPlane bool
	// MemoryOverhead is the part of the nominal memory that the hypervisor takes; nil means DefaultMemoryOverhead.
	MemoryOverhead *float64
	// InterruptionQueue is the name of the SQS queue of interruptions, "" for none.
	InterruptionQueue string
	// ReservedENIs is how many network interfaces of each machine are not for pods.
	ReservedENIs int
	// DisableDryRun leaves out trying, before a class is Ready, whether machines may be started.
	DisableDryRun bool
	// EnableZonalShift heeds zonal shifts of the cluster.
	EnableZonalShift bool
	// StatusDryRun only counts machines that EC2's own checks find broken: they stay.
	StatusDryRun bool
	// NodeClassCEL lets classes hold expressions in spec.kubelet.
	NodeClassCEL bool
	// DRANVIDIAGPU and DRAEFA have it known what NVIDIA's driver of GPUs and DRANET publish on machines, so that they are started for claims.
	DRANVIDIAGPU, DRAEFA bool
	// NoReserved starts no machines in capacity reservations; those that run there stay.
	NoReserved bool
	// AMIRefresh and SubnetRefresh are how long images and subnets are believed; 0 means a minute, which is also the least.
	AMIRefresh, SubnetRefresh time.Duration
	// LaunchWindow is how long a claim waits for equal claims that the same call can launch; the zero value is the default of fleet.Config.
	LaunchWindow batch.Window
	// UserAgent names the program in calls.
	UserAgent string

	// QueueWait is how long a look at the queue waits for a message, in whole seconds; 0 returns at once.
	QueueWait time.Duration

	// Client reads and writes Kubernetes objects.
	Client client.Client
	// Reader reads the cluster's DNS service, which is not worth a cache; nil means Client.
	Reader client.Reader
	// May, unless it is nil, says before a machine is started or stopped what speaks against it.
	May func(what string) error
	// Tell hears of what people should know of; nil is nobody.
	Tell provider.Tell
	// Registry is where metrics are registered; nil means nowhere.
	Registry prometheus.Registerer
	// Version asks the API server for its version.
	Version discovery.ServerVersionInterface
	// Clock is the time; nil means the machine's.
	Clock clock.Clock
	// SDK connects to AWS; nil means the SDK's standard environment.
	SDK *awssdk.Config
}

// check says in one line what is wrong with the settings.
func (c *Config) check() error {
	switch {
	case c.ClusterName == "":
		return errors.New("settings of the aws provider: the cluster has no name: set CLUSTER_NAME")
	case c.MemoryOverhead != nil && *c.MemoryOverhead < 0:
		return fmt.Errorf("settings of the aws provider: VM_MEMORY_OVERHEAD_PERCENT is %v, it cannot be negative", *c.MemoryOverhead)
	case c.ReservedENIs < 0:
		return fmt.Errorf("settings of the aws provider: RESERVED_ENIS is %d, it cannot be negative", c.ReservedENIs)
	case c.AMIRefresh != 0 && c.AMIRefresh < time.Minute:
		return fmt.Errorf("settings of the aws provider: AMI_REFRESH_INTERVAL is %s, the least is 1m", c.AMIRefresh)
	case c.SubnetRefresh != 0 && c.SubnetRefresh < time.Minute:
		return fmt.Errorf("settings of the aws provider: SUBNET_REFRESH_INTERVAL is %s, the least is 1m", c.SubnetRefresh)
	case c.Client == nil:
		return errors.New("make the aws provider: it needs a Kubernetes client")
	case c.Version == nil && !c.EKSControlPlane:
		return errors.New("make the aws provider: it needs the API server's version, or EKSControlPlane")
	}
	if c.ClusterEndpoint == "" {
		return nil
	}
	if u, err := url.Parse(c.ClusterEndpoint); err != nil || u.Host == "" || !u.IsAbs() {
		return fmt.Errorf("settings of the aws provider: CLUSTER_ENDPOINT is %q, want a URL such as https://example.com", c.ClusterEndpoint)
	}
	return nil
}

func (c *Config) memoryOverhead() float64 {
	if c.MemoryOverhead == nil {
		return DefaultMemoryOverhead
	}
	return *c.MemoryOverhead
}

func (c *Config) reader() client.Reader {
	if c.Reader == nil {
		return c.Client
	}
	return c.Reader
}
