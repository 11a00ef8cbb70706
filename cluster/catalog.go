package cluster

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/provider"
)

const (
	catalogRetry    = 30 * time.Second // the age after a failure
	catalogAge      = time.Minute      // the age after which a catalog is requested again; providers cache expensive answers
	catalogPatience = 20 * time.Second // a provider that takes longer has failed
)

// catalogs keeps the catalogs of the providers, by node class.
type catalogs struct {
	mu      sync.Mutex // guards the fields below; not held while a provider is called
	byClass map[v1.NodeClassReference]*catalog
	changed []func()
	traited []func(v1.NodeClassReference)
}

// catalog is the data of one node class.
type catalog struct {
	generation int64
	fetched    time.Time
	types      []engine.InstanceType // replaced, but never changed
	traits     []engine.Trait        // the same
	tended     []string              // the same
	quotas     []engine.Quota        // the same
	failure    string                // why the provider gave no catalog the last time
	asked      string                // the version of the class at the last call of the provider

	soldOut map[engine.OfferingID]inventory.SoldOut
	// marked is types with the sold-out offerings marked. It is valid until one of the marks ends.
	marked      []engine.InstanceType
	markedUntil time.Time
}

func newCatalogs() *catalogs { return &catalogs{byClass: map[v1.NodeClassReference]*catalog{}} }

// OnCatalogChange calls f after each change of a catalog. It must be called before anything runs.
func (c *Cluster) OnCatalogChange(f func()) {
	c.catalogs.mu.Lock()
	defer c.catalogs.mu.Unlock()
	c.catalogs.changed = append(c.catalogs.changed, f)
}

// OnTraitsChange calls f after a change of the traits that the machines of a class must have. It must be called before anything runs.
func (c *Cluster) OnTraitsChange(f func(v1.NodeClassReference)) {
	c.catalogs.mu.Lock()
	defer c.catalogs.mu.Unlock()
	c.catalogs.traited = append(c.catalogs.traited, f)
}

// Class reads a node class from the cache. The object is empty if there is none.
func (c *Cluster) Class(ctx context.Context, ref v1.NodeClassReference) (provider.Class, error) {
	for _, kind := range c.Provider.Kinds() {
		if kind.GroupKind() != ref.GroupKind() {
			continue
		}
		made, err := c.Client.Scheme().New(kind)
		if err != nil {
			return provider.Class{}, fmt.Errorf("read %s %s: %w", ref.Kind, ref.Name, err)
		}
		class := made.(provider.Object)
		if err := c.Client.Get(ctx, client.ObjectKey{Name: ref.Name}, class.(client.Object)); err != nil {
			return provider.Class{}, fmt.Errorf("read %s %s: %w", ref.Kind, ref.Name, err)
		}
		return provider.Class{Ref: ref, Object: class}, nil
	}
	return provider.Class{}, fmt.Errorf("read %s %s: no such kind is served by provider %s", ref.Kind, ref.Name, c.Provider.Name())
}

// Problem returns the reason why no machine can be started with a node class now. It returns "" if a machine can be started.
func Problem(class provider.Class) string {
	if class.Object.GetDeletionTimestamp() != nil {
		return fmt.Sprintf("%s %s is being deleted", class.Ref.Kind, class.Ref.Name)
	}
	object, ok := class.Object.(v1.Conditioned)
	if !ok {
		return ""
	}
	ready := v1.GetCondition(object, v1.ConditionReady)
	switch {
	case ready == nil || ready.Status == metav1.ConditionUnknown:
		return fmt.Sprintf("%s %s is not ready yet", class.Ref.Kind, class.Ref.Name)
	case ready.Status == metav1.ConditionFalse:
		return fmt.Sprintf("%s %s is not ready: %s", class.Ref.Kind, class.Ref.Name, cmp.Or(ready.Message, ready.Reason))
	}
	return ""
}

// classes returns the node classes to which the pools refer, sorted by reference.
func (c *Cluster) classes(ctx context.Context, pools []*v1.NodePool, now time.Time) []engine.Class {
	var refs []v1.NodeClassReference
	for _, p := range pools {
		refs = append(refs, *p.Spec.Template.Spec.NodeClassRef)
	}
	slices.SortFunc(refs, func(a, b v1.NodeClassReference) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	var out []engine.Class
	for _, ref := range slices.Compact(refs) {
		out = append(out, c.class(ctx, ref, now))
	}
	return out
}

func (c *Cluster) class(ctx context.Context, ref v1.NodeClassReference, now time.Time) engine.Class {
	out := c.offers(ctx, ref, now)
	if c.Repairer != nil {
		out.Repairs, out.Tended = c.Repairer.Repairs(), c.catalogs.tended(ref)
	}
	return out
}

// offers returns a node class with its catalog, or with the reason why nothing can be bought.
func (c *Cluster) offers(ctx context.Context, ref v1.NodeClassReference, now time.Time) engine.Class {
	class, err := c.Class(ctx, ref)
	if err != nil {
		problem := err.Error()
		if apierrors.IsNotFound(err) {
			problem = "it does not exist"
		}
		types, _ := c.catalogs.show(ref, now)
		return engine.Class{Ref: ref, Problem: problem, InstanceTypes: types}
	}
	if c.catalogs.missing(class) {
		_ = c.RefreshCatalog(ctx, class) // the failure is kept with the catalog, and shown below; the controller of node classes retries
	}
	types, failure := c.catalogs.show(ref, now)
	traits := c.catalogs.traits(ref)
	problem := Problem(class)
	if problem == "" && len(types) == 0 {
		problem = failure
	}
	return engine.Class{Ref: ref, Problem: problem, InstanceTypes: types, Traits: traits, Quotas: c.catalogs.quotas(ref)}
}

// ClassOf returns the node class in the form of the engine.
func (c *Cluster) ClassOf(ctx context.Context, ref v1.NodeClassReference) engine.Class {
	return c.class(ctx, ref, c.Clock.Now())
}

// RefreshCatalog asks the provider for the catalog of a node class, for the machines that other programs repair, and for the traits
// that machines must have. Values without an answer do not change.
func (c *Cluster) RefreshCatalog(ctx context.Context, class provider.Class) error {
	ask, cancel := context.WithTimeout(ctx, catalogPatience)
	defer cancel()
	types, err := c.Provider.Catalog(ask, class)
	if err != nil {
		err = fmt.Errorf("ask for the catalog of %s %s: %w", class.Ref.Kind, class.Ref.Name, err)
	}
	for _, f := range c.catalogs.put(class, types, err, c.Clock.Now()) {
		f()
	}
	if checks, ok := c.Repairer.(provider.HealthChecker); ok && err == nil {
		var tended []string
		if tended, err = checks.Tended(ask, class); err != nil {
			err = fmt.Errorf("ask which machines of %s %s others repair: %w", class.Ref.Kind, class.Ref.Name, err)
		} else {
			c.catalogs.putTended(class.Ref, tended)
		}
	}
	if c.Rationer != nil && err == nil {
		var quotas []engine.Quota
		if quotas, err = c.Rationer.Quotas(ask, class); err != nil {
			err = fmt.Errorf("ask what quotas of %s %s have left: %w", class.Ref.Kind, class.Ref.Name, err)
		} else {
			for _, f := range c.catalogs.putQuotas(class.Ref, quotas) {
				f()
			}
		}
	}
	if err != nil || c.Inspector == nil {
		return err
	}
	traits, err := c.Inspector.Traits(ask, class)
	if err != nil {
		return fmt.Errorf("ask what machines of %s %s have to look like: %w", class.Ref.Kind, class.Ref.Name, err)
	}
	for _, f := range c.catalogs.putTraits(class, traits) {
		f(class.Ref)
	}
	return nil
}

// CatalogAged reports whether it is time to ask for the class's catalog again. A class without a catalog may have one after any change
// of the class, for example of its subnets.
func (c *Cluster) CatalogAged(class provider.Class) bool {
	if c.catalogs.missing(class) {
		return true
	}
	c.catalogs.mu.Lock()
	defer c.catalogs.mu.Unlock()
	k := c.catalogs.byClass[class.Ref]
	if k.failure != "" && k.asked != class.Object.GetResourceVersion() {
		return true
	}
	age := catalogAge
	if k.failure != "" {
		age = catalogRetry
	}
	return c.Clock.Since(k.fetched) >= age
}

// missing reports whether the provider was not asked for the class's catalog yet, or only for an older version of the class.
func (c *catalogs) missing(class provider.Class) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.byClass[class.Ref]
	return k == nil || k.generation != class.Object.GetGeneration()
}

// put stores the provider's answer to a request for a catalog, and returns the functions to call if the catalog has changed.
func (c *catalogs) put(class provider.Class, types []engine.InstanceType, err error, now time.Time) []func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.byClass[class.Ref]
	if k == nil {
		k = &catalog{soldOut: map[engine.OfferingID]inventory.SoldOut{}}
		c.byClass[class.Ref] = k
	}
	if k.generation != class.Object.GetGeneration() {
		k.traits = nil // the traits of an older class would make new machines drift
	}
	k.fetched, k.generation = now, class.Object.GetGeneration()
	k.failure, k.asked = "", class.Object.GetResourceVersion()
	if err != nil {
		k.failure = err.Error()
		return nil
	}
	if same(k.types, types) {
		return nil
	}
	k.types, k.marked = types, nil
	return slices.Clone(c.changed)
}

// putTraits stores the traits that machines of the class must have, and returns the functions to call if they have changed.
func (c *catalogs) putTraits(class provider.Class, traits []engine.Trait) []func(v1.NodeClassReference) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.byClass[class.Ref]
	if k.generation != class.Object.GetGeneration() || reflect.DeepEqual(k.traits, traits) { // traits of an older class came too late
		return nil
	}
	k.traits = traits
	return slices.Clone(c.traited)
}

func (c *catalogs) traits(ref v1.NodeClassReference) []engine.Trait {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.byClass[ref]; k != nil {
		return k.traits
	}
	return nil
}

func (c *catalogs) putTended(ref v1.NodeClassReference, tended []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byClass[ref].tended = tended
}

func (c *catalogs) tended(ref v1.NodeClassReference) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.byClass[ref]; k != nil {
		return k.tended
	}
	return nil
}

// putQuotas stores the unused quotas. It returns the functions to call if a quota has more left than before, or is no longer known, because
// that quota may have prevented machines that can be started now.
func (c *catalogs) putQuotas(ref v1.NodeClassReference, quotas []engine.Quota) []func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.byClass[ref]
	before := k.quotas
	k.quotas = quotas
	if slices.ContainsFunc(before, func(old engine.Quota) bool {
		i := slices.IndexFunc(quotas, func(q engine.Quota) bool { return q.Name == old.Name })
		return i < 0 || quotas[i].Left > old.Left
	}) {
		return slices.Clone(c.changed)
	}
	return nil
}

func (c *catalogs) quotas(ref v1.NodeClassReference) []engine.Quota {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.byClass[ref]; k != nil {
		return k.quotas
	}
	return nil
}

// same reports whether both are one list, because a provider returns the same list while nothing has changed.
func same(a, b []engine.InstanceType) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// show returns the class's catalog, and the reason if the provider gave none the last time.
func (c *catalogs) show(ref v1.NodeClassReference, now time.Time) ([]engine.InstanceType, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.byClass[ref]
	if k == nil {
		return nil, ""
	}
	return k.show(now), k.failure
}
