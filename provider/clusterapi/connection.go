package clusterapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/provider/clusterapi/contract"
)

// Connection connects to a management cluster. It reads Cluster API's objects in the best version that the management cluster serves, and
// changes the version when that changes. Start keeps the connection up. While there is none, Management returns the reason.
type Connection struct {
	config    *rest.Config
	discovery discovery.DiscoveryInterface
	every     time.Duration // the time between two checks of the connection

	mu   sync.Mutex // guards the two below
	now  *Management
	lost error
}

// ErrNotConnected is the error of Management before the first connection, and during a change to another version.
var ErrNotConnected = errors.New("not connected yet")

// errUnserved means that the management cluster does not serve Cluster API in a known version.
var errUnserved = errors.New("it does not serve Cluster API in a form that can be read")

const (
	// reachTimeout is the time limit of an answer, syncTimeout that of the first lists.
	reachTimeout, syncTimeout = 10 * time.Second, time.Minute
	lookEvery                 = 10 * time.Second
)

// NewConnection makes a connection that is not up yet.
func NewConnection(config *rest.Config) (*Connection, error) {
	config = rest.CopyConfig(config)
	config.Timeout = 0 // watches last long
	short := rest.CopyConfig(config)
	short.Timeout = reachTimeout
	d, err := discovery.NewDiscoveryClientForConfig(short)
	if err != nil {
		return nil, fmt.Errorf("reach the management cluster: %w", err)
	}
	return &Connection{config: config, discovery: d, every: lookEvery, lost: ErrNotConnected}, nil
}

// Management returns the clients for the management cluster as it is now.
func (c *Connection) Management() (*Management, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost != nil {
		return nil, c.lost
	}
	return c.now, nil
}

func (c *Connection) set(now *Management, lost error) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed = (c.lost == nil) != (lost == nil)
	c.now, c.lost = now, lost
	return changed
}

// Start keeps the connection up until ctx ends.
func (c *Connection) Start(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName("management-cluster")
	for ctx.Err() == nil {
		version, err := c.version(ctx)
		if err == nil {
			err = c.hold(ctx, version)
		}
		if ctx.Err() == nil && c.set(nil, err) && !errors.Is(err, ErrNotConnected) {
			logger.Error(err, "management cluster is out of reach, no machines are started until it is back")
		}
		if errors.Is(err, ErrNotConnected) {
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(c.every):
		}
	}
	return nil
}

// version returns the best version that the management cluster serves.
func (c *Connection) version(context.Context) (string, error) {
	group, err := c.discovery.ServerGroups()
	if err != nil {
		return "", fmt.Errorf("ask which versions of %s are served: %w", contract.Group, err)
	}
	var served []string
	for _, g := range group.Groups {
		if g.Name == contract.Group {
			for _, v := range g.Versions {
				served = append(served, v.Version)
			}
		}
	}
	for _, version := range contract.Versions {
		if slices.Contains(served, version) {
			return version, nil
		}
	}
	if len(served) == 0 {
		return "", fmt.Errorf("%w: it has no kinds of group %s: install Cluster API, or name another cluster with --cluster-api-kubeconfig", errUnserved, contract.Group)
	}
	return "", fmt.Errorf("%w: it serves %s in the versions %v, and none of %v: use a release of Cluster API that does", errUnserved, contract.Group, served, contract.Versions)
}

// look makes a client that reads one version without a cache.
func (c *Connection) look(version string) (client.Client, error) {
	scheme := runtime.NewScheme()
	contract.AddToScheme(scheme, version)
	short := rest.CopyConfig(c.config)
	short.Timeout = reachTimeout
	return client.New(short, client.Options{Scheme: scheme})
}

// hold reads in one version until ctx ends, until another version is the best one, or until no version is served.
func (c *Connection) hold(ctx context.Context, version string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	scheme := runtime.NewScheme()
	contract.AddToScheme(scheme, version)
	httpClient, err := rest.HTTPClientFor(c.config)
	if err != nil {
		return err
	}
	defer httpClient.CloseIdleConnections()
	mapper, err := apiutil.NewDynamicRESTMapper(c.config, httpClient)
	if err != nil {
		return err
	}
	cached, err := cache.New(c.config, cache.Options{Scheme: scheme, HTTPClient: httpClient, Mapper: mapper, DefaultTransform: slim})
	if err != nil {
		return err
	}
	short := rest.CopyConfig(c.config)
	short.Timeout = reachTimeout
	live, err := client.New(short, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return err
	}
	for _, object := range []client.Object{&contract.Cluster{}, &contract.MachineDeployment{}, &contract.MachineSet{}, &contract.Machine{}} {
		if _, err := cached.GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch %T: %w", object, err)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- cached.Start(ctx) }()
	synced, stop := context.WithTimeout(ctx, syncTimeout)
	ok := cached.WaitForCacheSync(synced)
	stop()
	if !ok {
		return c.refused(ctx, live)
	}
	if c.set(&Management{Live: live, Cached: cached}, nil) {
		log.FromContext(ctx).Info("connected to the management cluster", "group", schema.GroupVersion{Group: contract.Group, Version: version}.String())
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			return err
		case <-time.After(c.every):
		}
		best, err := c.version(ctx)
		if err == nil && best != version {
			return fmt.Errorf("%w: it serves %s in version %s now", ErrNotConnected, contract.Group, best)
		}
		if errors.Is(err, errUnserved) { // otherwise, old objects would be shown for a while when the version is served again
			return err
		}
		if err != nil {
			c.set(&Management{Live: live, Cached: cached}, err)
			continue
		}
		c.set(&Management{Live: live, Cached: cached}, nil)
	}
}

// refused returns the reason why the first lists failed.
func (c *Connection) refused(ctx context.Context, live client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	for _, list := range []client.ObjectList{&contract.ClusterList{}, &contract.MachineDeploymentList{}, &contract.MachineSetList{}, &contract.MachineList{}} {
		if err := live.List(ctx, list, client.Limit(1)); err != nil {
			if apierrors.IsForbidden(err) {
				return fmt.Errorf("%w: see docs/guide/cluster-api.md for the rights that it takes", err)
			}
			return err
		}
	}
	return fmt.Errorf("its objects could not be listed within %s", syncTimeout)
}

// slim drops metadata that the provider does not read.
func slim(object any) (any, error) {
	if o, ok := object.(client.Object); ok {
		o.SetManagedFields(nil)
		o.SetOwnerReferences(nil)
		o.SetFinalizers(nil)
	}
	return object, nil
}
