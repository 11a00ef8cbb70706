package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/device"
	"tenon.sh/provider"
)

// Config is the input of New.
type Config struct {
	// Client reads from the caches and writes to the API server.
	Client client.Client
	// API reads from the API server itself.
	API client.Reader
	// Informers, unless nil, return cached objects without copies. Without Informers, Client is used.
	Informers cache.Informers
	Provider  provider.Provider
	// Inspector returns the traits that machines must have; nil means that none are known.
	Inspector provider.Inspector
	// Rationer returns the unused quotas of the cloud; nil means that none is known.
	Rationer provider.Rationer
	// Repairer decides which nodes are broken; nil means that no node is repaired.
	Repairer provider.Repairer
	// Overlays is true if NodeOverlays have an effect. If not, they are not read.
	Overlays bool
	// Buffers is true if CapacityBuffers have an effect. If not, they are not read.
	Buffers bool
	// Requests is true if ProvisioningRequests have an effect. If not, they are not read.
	Requests bool
	// Selectors evaluates the selectors of claims for devices, see engine.Snapshot. If it is nil, claims for devices have no effect and are not
	// read.
	Selectors func(expressions []string, shape *device.Shape) []device.Answer
	// NodeOverheadPrice is the fixed cost of every node beside its machine, see engine.Snapshot.
	NodeOverheadPrice float64
	// Commitments returns the commitments; nil means that there are none.
	Commitments func() []engine.Commitment
	// ScaleUps returns the pods for which Cluster Autoscaler starts nodes. It returns nil if its events are not read.
	ScaleUps *ScaleUps
	Clock    clock.PassiveClock
	// Launches is locked from the reading of the cluster to the creation of the missing claims; nil means a lock of its own.
	Launches sync.Locker
	// Leader is written on the claims that this process creates; empty without leader election.
	Leader string
	// Leads checks, before claims are created, that this process is still the leader; nil if it always is.
	Leads func(context.Context) error
}

// Cluster mirrors one Kubernetes cluster. All its methods may be called from several goroutines.
type Cluster struct {
	Config
	catalogs *catalogs
	overlays overlays
	zones    zones
	// noDeviceClasses is set by Watch, before the first Snapshot, if the API server does not serve that kind.
	noDeviceClasses bool
	noDeviceClaims  bool            // the same for ResourceClaims, their templates and ResourceSlices
	noBuffers       bool            // the same for CapacityBuffers
	podGroups       podGroupVersion // set by Watch too
	requests        requestVersion  // set by Watch too

	mu     sync.Mutex         // guards the fields below, and the lists while they are merged into them
	began  bool               // the claims were read from the API server, and no creation since then has an unclear result
	found  map[types.UID]bool // the claims at the first answer
	claims *written[*v1.NodeClaim]
	nodes  *written[*corev1.Node]
	pods   *written[*corev1.Pod]

	passes   atomic.Pointer[engine.EarlierPasses]
	expected atomic.Pointer[map[string]engine.ExpectedPod]
}

// New returns the mirror of a cluster.
func New(config Config) *Cluster {
	if config.Launches == nil {
		config.Launches = &sync.Mutex{}
	}
	return &Cluster{
		Config:   config,
		catalogs: newCatalogs(),
		claims:   newWritten[*v1.NodeClaim](),
		nodes:    newWritten[*corev1.Node](),
		pods:     newWritten[*corev1.Pod](),
	}
}

// Snapshot returns the present cluster: the state of the watches, with the later writes of this process. It leaves out pools and claims of node
// classes that this provider does not serve, because they belong to another program. The objects are shared, so callers must not change them. An
// error means that a kind could not be listed at all.
func (c *Cluster) Snapshot(ctx context.Context) (*engine.Snapshot, error) {
	if err := c.begin(ctx); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	c.confirmUnseen(ctx)
	s := &engine.Snapshot{Now: c.Clock.Now(), NodeOverheadPrice: c.NodeOverheadPrice, EarlierPasses: cmp.Or(c.passes.Load(), &engine.EarlierPasses{})}
	if s.ExpectedPods = map[string]engine.ExpectedPod{}; c.expected.Load() != nil {
		s.ExpectedPods = *c.expected.Load()
	}
	if c.Commitments != nil {
		s.Commitments = c.Commitments()
	}
	if err := c.listWritten(ctx, s); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	s.ScaleUps = c.ScaleUps.of(s.Pods)
	var errs [5]error
	s.DaemonSets, errs[0] = list[appsv1.DaemonSet](ctx, c, &appsv1.DaemonSetList{})
	s.PodDisruptionBudgets, errs[1] = list[policyv1.PodDisruptionBudget](ctx, c, &policyv1.PodDisruptionBudgetList{})
	s.LimitRanges, errs[2] = list[corev1.LimitRange](ctx, c, &corev1.LimitRangeList{})
	s.RuntimeClasses, errs[4] = list[nodev1.RuntimeClass](ctx, c, &nodev1.RuntimeClassList{})
	s.NodePools, errs[3] = list[v1.NodePool](ctx, c, &v1.NodePoolList{})
	if err := errors.Join(append(errs[:], c.listStorage(ctx, s), c.listOwners(ctx, s), c.listDevices(ctx, s), c.listBuffers(ctx, s), c.listRequests(ctx, s), c.listPodGroups(ctx, s))...); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	s.NodePools = slices.DeleteFunc(s.NodePools, func(p *v1.NodePool) bool { return !c.Serves(p.Spec.Template.Spec.NodeClassRef) })
	s.NodeClaims = slices.DeleteFunc(s.NodeClaims, func(n *v1.NodeClaim) bool { return !c.Serves(n.Spec.NodeClassRef) })
	s.Classes = c.classes(ctx, s.NodePools, s.Now)
	if err := c.correct(ctx, s); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	s.Zones = c.zones.of(s)
	return s, nil
}

// KeepPasses adds the results of disruption passes to the next snapshots. A process begins without any.
func (c *Cluster) KeepPasses(passes *engine.EarlierPasses) { c.passes.Store(passes) }

// KeepExpected sets ExpectedPods of the next snapshots. It is kept in memory only.
func (c *Cluster) KeepExpected(pods map[string]engine.ExpectedPod) { c.expected.Store(&pods) }

// begin reads the claims from the API server itself, at the start and after a creation without a clear answer. The caches may begin with
// lists that are older than the last writes of an earlier process. A plan from such lists would start machines a second time.
func (c *Cluster) begin(ctx context.Context) error {
	c.mu.Lock()
	began := c.began
	c.mu.Unlock()
	if began {
		return nil
	}
	var claims v1.NodeClaimList
	if err := c.API.List(ctx, &claims); err != nil {
		return fmt.Errorf("list the NodeClaims from the API server: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.found == nil
	if first {
		c.found = make(map[types.UID]bool, len(claims.Items))
	}
	for i := range claims.Items {
		if !c.began {
			c.claims.found(&claims.Items[i], c.Clock.Now())
		}
		if first {
			c.found[claims.Items[i].UID] = true
		}
	}
	c.began = true
	return nil
}

// Stray reports whether another leader created the claim after this leader had begun to plan, because the claim's pods may have another
// machine by now. A write of a paused process may arrive long after its successor has begun.
func (c *Cluster) Stray(ctx context.Context, claim *v1.NodeClaim) (bool, error) {
	by := claim.Annotations[v1.LeaderAnnotationKey]
	if c.Leader == "" || by == "" || by == c.Leader {
		return false, nil
	}
	if err := c.begin(ctx); err != nil {
		return false, err
	}
	c.mu.Lock()
	found := c.found[claim.UID]
	c.mu.Unlock()
	if found || c.Leads == nil {
		return !found, nil
	}
	err := c.Leads(ctx) // the claim may be from a successor of this process
	return err == nil, err
}

// listWritten lists the kinds that this process writes. Nodes are read before pods, because a pod that is bound in between is then counted twice
// rather than not at all.
func (c *Cluster) listWritten(ctx context.Context, s *engine.Snapshot) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs [3]error
	s.NodeClaims, errs[0] = list[v1.NodeClaim](ctx, c, &v1.NodeClaimList{})
	s.Nodes, errs[1] = list[corev1.Node](ctx, c, &corev1.NodeList{})
	s.Pods, errs[2] = list[corev1.Pod](ctx, c, &corev1.PodList{})
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	s.NodeClaims = c.claims.merge(s.NodeClaims, s.Now)
	s.Nodes = c.nodes.merge(s.Nodes, s.Now)
	s.Pods = c.pods.merge(s.Pods, s.Now)
	return nil
}

// listStorage lists the objects that decide on which nodes volumes can be used. Attachments are read after pods: a volume that is attached in between
// is counted twice at most, and its name shows that it is the same volume.
func (c *Cluster) listStorage(ctx context.Context, s *engine.Snapshot) error {
	var errs [7]error
	s.PersistentVolumeClaims, errs[0] = list[corev1.PersistentVolumeClaim](ctx, c, &corev1.PersistentVolumeClaimList{})
	s.PersistentVolumes, errs[1] = list[corev1.PersistentVolume](ctx, c, &corev1.PersistentVolumeList{})
	s.StorageClasses, errs[2] = list[storagev1.StorageClass](ctx, c, &storagev1.StorageClassList{})
	s.CSINodes, errs[3] = list[storagev1.CSINode](ctx, c, &storagev1.CSINodeList{})
	s.VolumeAttachments, errs[4] = list[storagev1.VolumeAttachment](ctx, c, &storagev1.VolumeAttachmentList{})
	s.CSIDrivers, errs[5] = list[storagev1.CSIDriver](ctx, c, &storagev1.CSIDriverList{})
	s.CSIStorageCapacities, errs[6] = list[storagev1.CSIStorageCapacity](ctx, c, &storagev1.CSIStorageCapacityList{})
	return errors.Join(errs[:]...)
}

// listOwners lists the objects by which pods are grouped.
func (c *Cluster) listOwners(ctx context.Context, s *engine.Snapshot) error {
	var errs [6]error
	s.Namespaces, errs[0] = list[corev1.Namespace](ctx, c, &corev1.NamespaceList{})
	s.Services, errs[1] = list[corev1.Service](ctx, c, &corev1.ServiceList{})
	s.ReplicaSets, errs[2] = list[appsv1.ReplicaSet](ctx, c, &appsv1.ReplicaSetList{})
	s.StatefulSets, errs[3] = list[appsv1.StatefulSet](ctx, c, &appsv1.StatefulSetList{})
	s.ReplicationControllers, errs[4] = list[corev1.ReplicationController](ctx, c, &corev1.ReplicationControllerList{})
	if !c.noDeviceClasses {
		s.DeviceClasses, errs[5] = list[resourcev1.DeviceClass](ctx, c, &resourcev1.DeviceClassList{})
	}
	return errors.Join(errs[:]...)
}

// DeviceClaims reports whether claims for devices have an effect.
func (c *Cluster) DeviceClaims() bool {
	return c.Selectors != nil && !c.noDeviceClasses && !c.noDeviceClaims
}

// ResourceSlices lists the devices that drivers have published.
func (c *Cluster) ResourceSlices(ctx context.Context) ([]*resourcev1.ResourceSlice, error) {
	return list[resourcev1.ResourceSlice](ctx, c, &resourcev1.ResourceSliceList{})
}

// listDevices lists the objects that claims for devices need, if such claims have an effect.
func (c *Cluster) listDevices(ctx context.Context, s *engine.Snapshot) error {
	if !c.DeviceClaims() {
		return nil
	}
	var errs [3]error
	s.Selectors = c.Selectors
	s.ResourceClaims, errs[0] = list[resourcev1.ResourceClaim](ctx, c, &resourcev1.ResourceClaimList{})
	s.ResourceClaimTemplates, errs[1] = list[resourcev1.ResourceClaimTemplate](ctx, c, &resourcev1.ResourceClaimTemplateList{})
	s.ResourceSlices, errs[2] = c.ResourceSlices(ctx)
	return errors.Join(errs[:]...)
}

// Serves reports whether this process serves the kind of the node class.
func (c *Cluster) Serves(ref *v1.NodeClassReference) bool {
	if ref == nil {
		return false
	}
	for _, kind := range c.Provider.Kinds() {
		if kind.GroupKind() == ref.GroupKind() {
			return true
		}
	}
	return false
}

// confirmUnseen asks the API server for claims that were created a while ago and that the watch has never shown, because a claim of this kind may
// have been created and deleted in between.
func (c *Cluster) confirmUnseen(ctx context.Context) {
	c.mu.Lock()
	unseen := c.claims.unseen(c.Clock.Now())
	c.mu.Unlock()
	for _, claim := range unseen {
		ask, cancel := context.WithTimeout(ctx, 5*time.Second)
		found, gone, err := confirm(ask, c.API, claim)
		cancel()
		if err != nil {
			continue // the claim stays in the snapshot until the API server has answered
		}
		c.mu.Lock()
		c.claims.settle(claim, found, gone, c.Clock.Now())
		c.mu.Unlock()
	}
}

// object is a pointer to a Kubernetes object of type T.
type object[T any] interface {
	*T
	client.Object
}

// list returns all objects of one kind, from the cache if there is one.
func list[T any, P object[T]](ctx context.Context, c *Cluster, into client.ObjectList) ([]P, error) {
	if c.Informers != nil {
		return shared[T, P](ctx, c.Informers)
	}
	if err := c.Client.List(ctx, into, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list %T: %w", into, err)
	}
	objects := make([]P, 0, apimeta.LenList(into))
	err := apimeta.EachListItem(into, func(o runtime.Object) error {
		objects = append(objects, o.(P))
		return nil
	})
	return objects, err
}

// shared returns the cached objects themselves. It waits until the cache is complete, because busy nodes would look empty in an
// incomplete list.
func shared[T any, P object[T]](ctx context.Context, informers cache.Informers) ([]P, error) {
	informer, err := informers.GetInformer(ctx, P(new(T)))
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", new(T), err)
	}
	store, ok := informer.(interface{ GetStore() toolscache.Store })
	if !ok {
		return nil, fmt.Errorf("watch %T: the informer has no store", new(T))
	}
	items := store.GetStore().List()
	objects := make([]P, 0, len(items))
	for _, item := range items {
		objects = append(objects, item.(P))
	}
	inPlace(objects)
	return objects, nil
}

// longList is the number of objects above which it takes time to find them again.
const longList = 1000

// inPlace orders the objects of a long list by their addresses in memory, because a cache lists them in no order. Unchanged objects
// then keep their order, so a comparison of two lists needs no search. Short lists keep their order, because a cluster in memory lists
// them in the same order in every run.
func inPlace[T any, P object[T]](objects []P) {
	if len(objects) <= longList {
		return
	}
	at := func(o P) uintptr { return uintptr(unsafe.Pointer((*T)(o))) }
	slices.SortFunc(objects, func(a, b P) int { return cmp.Compare(at(a), at(b)) })
}
