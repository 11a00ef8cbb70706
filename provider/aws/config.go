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

// DefaultMemoryOverhead is the largest share of a machine's nominal memory that its hypervisor takes.
const DefaultMemoryOverhead = size.DefaultMemoryOverhead

// Config holds the settings of a Provider. The zero value of a setting is its default.
type Config struct {
	// ClusterName is required. It is in the tags of all objects that the provider makes.
	ClusterName string
	// ClusterEndpoint and ClusterCABundle (base64) are the API server's address and certificate authorities for machines. Without an
	// endpoint, the provider asks EKS.
	ClusterEndpoint, ClusterCABundle string
	// IsolatedVPC means that services without an endpoint in the network cannot be reached. Prices are then the built-in ones.
	IsolatedVPC bool
	// EKSControlPlane means that EKS is asked for the version of Kubernetes, not the API server.
	EKSControlPlane bool
	// MemoryOverhead is the share of the nominal memory that the hypervisor takes; nil means DefaultMemoryOverhead.
	MemoryOverhead *float64
	// InterruptionQueue is the name of the SQS queue of interruptions, "" for none.
	InterruptionQueue string
	// ReservedENIs is the number of network interfaces of each machine that are not for pods.
	ReservedENIs int
	// DisableDryRun skips the dry run of a launch before a class becomes Ready.
	DisableDryRun bool
	// EnableZonalShift makes launches avoid zones during zonal shifts of the cluster.
	EnableZonalShift bool
	// StatusDryRun only counts machines that EC2's checks find broken, and does not replace them.
	StatusDryRun bool
	// NodeClassCEL allows expressions in spec.kubelet of classes.
	NodeClassCEL bool
	// DRANVIDIAGPU and DRAEFA add the devices that NVIDIA's GPU driver and DRANET publish on machines, so that machines are started for
	// resource claims.
	DRANVIDIAGPU, DRAEFA bool
	// NoReserved starts no machines in capacity reservations; machines that run there stay.
	NoReserved bool
	// AMIRefresh and SubnetRefresh are the times for which images and subnets are kept; 0 means a minute, which is the least.
	AMIRefresh, SubnetRefresh time.Duration
	// LaunchWindow is the time that a claim waits for equal claims that the same call can launch; the zero value is the default of
	// fleet.Config.
	LaunchWindow batch.Window
	// UserAgent names the program in calls.
	UserAgent string

	// QueueWait is the time that a call to the queue waits for a message, in whole seconds; 0 returns immediately.
	QueueWait time.Duration

	// Client reads and writes Kubernetes objects.
	Client client.Client
	// Reader reads the cluster's DNS service without a cache; nil means Client.
	Reader client.Reader
	// May, unless it is nil, is called before a machine is started or stopped. Its error prevents that.
	May func(what string) error
	// Tell receives events for users; nil drops them.
	Tell provider.Tell
	// Registry registers the metrics; nil means that they are not registered.
	Registry prometheus.Registerer
	// Version asks the API server for its version.
	Version discovery.ServerVersionInterface
	// Clock is the clock; nil means the machine's.
	Clock clock.Clock
	// SDK connects to AWS; nil means the SDK's standard environment.
	SDK *awssdk.Config
}

// check returns an error that describes one mistake in the settings, in one line.
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
