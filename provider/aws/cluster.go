package aws

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/provider/aws/cloud"
	"tenon.sh/provider/fresh"
)

// clusterAge is the time for which EKS's description of the cluster is kept, because its version may rise.
const clusterAge = 5 * time.Minute

// Cluster finds the properties of the cluster that machines need to join it.
type Cluster struct {
	// Name is the cluster's name, CABundle its certificate authorities in base64.
	Name, CABundle string

	endpoint   string // as configured
	askEKS     bool
	cloud      *cloud.Cloud
	kubernetes discovery.ServerVersionInterface
	client     client.Reader
	described  *fresh.Cache[string, *ekstypes.Cluster]
	versions   *fresh.Cache[string, string]
	names      *fresh.Cache[string, string] // the address of the DNS service

	mu    sync.Mutex // guards the fields below
	last  *ekstypes.Cluster
	noted string // the last version that noteVersion has seen
}

func newCluster(cfg *Config, c *cloud.Cloud, clock clock.PassiveClock) *Cluster {
	return &Cluster{
		Name: cfg.ClusterName, CABundle: cfg.ClusterCABundle, endpoint: cfg.ClusterEndpoint, askEKS: cfg.EKSControlPlane,
		cloud: c, kubernetes: cfg.Version, client: cfg.reader(),
		names:     fresh.New[string, string](clock, clusterAge),
		described: fresh.New[string, *ekstypes.Cluster](clock, clusterAge),
		versions:  fresh.New[string, string](clock, clusterAge),
	}
}

func (c *Cluster) describe(ctx context.Context) (*ekstypes.Cluster, error) {
	return c.described.Get(ctx, c.Name, func(ctx context.Context) (*ekstypes.Cluster, error) {
		answer, err := c.cloud.EKS.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: awssdk.String(c.Name)})
		if err != nil {
			return nil, fmt.Errorf("describe cluster %s: %w", c.Name, err)
		}
		if answer.Cluster == nil {
			return nil, fmt.Errorf("describe cluster %s: EKS describes nothing", c.Name)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.last = answer.Cluster
		return answer.Cluster, nil
	})
}

// known returns EKS's last description of the cluster, however old it is, for properties that never change. Without one, it asks EKS.
func (c *Cluster) known(ctx context.Context) (*ekstypes.Cluster, error) {
	c.mu.Lock()
	last := c.last
	c.mu.Unlock()
	if last != nil {
		return last, nil
	}
	return c.describe(ctx)
}

// Version returns the cluster's version of Kubernetes without its patch, "1.34".
func (c *Cluster) Version(ctx context.Context) (string, error) {
	version, err := c.version(ctx)
	if err == nil {
		c.noteVersion(ctx, version)
	}
	return version, err
}

func (c *Cluster) version(ctx context.Context) (string, error) {
	if c.askEKS {
		cluster, err := c.describe(ctx)
		if err != nil {
			return "", err
		}
		return awssdk.ToString(cluster.Version), nil
	}
	return c.versions.Get(ctx, "", func(context.Context) (string, error) {
		v, err := c.kubernetes.ServerVersion()
		if err != nil {
			return "", fmt.Errorf("ask the API server for its version: %w", err)
		}
		return v.Major + "." + strings.TrimSuffix(v.Minor, "+"), nil
	})
}

// Endpoint returns the URL of the API server as machines see it.
func (c *Cluster) Endpoint(ctx context.Context) (string, error) {
	if c.endpoint != "" {
		return c.endpoint, nil
	}
	cluster, err := c.known(ctx)
	if err != nil {
		return "", fmt.Errorf("find the cluster's endpoint (or set CLUSTER_ENDPOINT): %w", err)
	}
	return awssdk.ToString(cluster.Endpoint), nil
}

// ARN returns the cluster's ARN.
func (c *Cluster) ARN(ctx context.Context) (string, error) {
	cluster, err := c.known(ctx)
	if err != nil {
		return "", err
	}
	return awssdk.ToString(cluster.Arn), nil
}

// ServiceCIDR returns the address range of the cluster's Services.
func (c *Cluster) ServiceCIDR(ctx context.Context) (string, error) {
	cluster, err := c.known(ctx)
	if err != nil {
		return "", err
	}
	network := cluster.KubernetesNetworkConfig
	switch {
	case network != nil && awssdk.ToString(network.ServiceIpv4Cidr) != "":
		return *network.ServiceIpv4Cidr, nil
	case network != nil && awssdk.ToString(network.ServiceIpv6Cidr) != "":
		return *network.ServiceIpv6Cidr, nil
	}
	return "", errors.New("EKS does not say which addresses the services of cluster " + c.Name + " have")
}

// DNS returns the address of the cluster's DNS service, "" if there is no Service kube-system/kube-dns.
func (c *Cluster) DNS(ctx context.Context) (string, error) {
	return c.names.Get(ctx, "", func(ctx context.Context) (string, error) {
		service := &corev1.Service{}
		err := c.client.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "kube-dns"}, service)
		if client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("find the cluster's DNS: %w", err)
		}
		return service.Spec.ClusterIP, nil
	})
}
