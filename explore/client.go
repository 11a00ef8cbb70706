package explore

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"tenon.sh/cluster"
)

// remote is a process's client. It reads from the process's views if cached is set. Each other call is a step of its own, and any event may
// happen before it.
type remote struct {
	p      *process
	cached bool
}

var _ client.Client = remote{}

var errNotServed = errors.New("explore: this call is not served in these runs")

func (r remote) Get(_ context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	name := key.Namespace + "/" + key.Name
	shelf := r.p.api.shelfOf(into)
	var found client.Object
	if r.cached {
		found = r.p.views[reflect.TypeOf(into)].objects[name]
	} else if err := r.p.call("get", shelf.name, name, func() error { found = shelf.objects[name]; return nil }); err != nil {
		return err
	}
	if found == nil {
		return shelf.notFound(name)
	}
	var options client.GetOptions
	options.ApplyOptions(opts)
	if options.UnsafeDisableDeepCopy == nil || !*options.UnsafeDisableDeepCopy {
		found = found.DeepCopyObject().(client.Object)
	}
	assign(into, found)
	return nil
}

// assign copies from to into.
func assign(into, from client.Object) {
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(from).Elem())
}

func (r remote) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	items := reflect.ValueOf(list).Elem().FieldByName("Items")
	shelf := r.p.api.shelves[reflect.PointerTo(items.Type().Elem())]
	if shelf == nil {
		return fmt.Errorf("list %T: %w", list, errNotServed)
	}
	var options client.ListOptions
	options.ApplyOptions(opts)
	copied := options.UnsafeDisableDeepCopy == nil || !*options.UnsafeDisableDeepCopy
	fill := func(objects []any) {
		has := selector(shelf, options)
		var found []client.Object
		for _, item := range objects {
			if o := item.(client.Object); has(o) {
				found = append(found, o)
			}
		}
		out := reflect.MakeSlice(items.Type(), len(found), len(found))
		for i, o := range found {
			if copied {
				o = o.DeepCopyObject().(client.Object)
			}
			out.Index(i).Set(reflect.ValueOf(o).Elem())
		}
		items.Set(out)
	}
	if r.cached {
		fill(r.p.views[reflect.PointerTo(items.Type().Elem())].list())
		return nil
	}
	return r.p.call("list", shelf.name, fieldsOf(options), func() error {
		var objects []any
		for _, key := range shelf.keys {
			objects = append(objects, shelf.objects[key])
		}
		fill(objects)
		if node, ok := strings.CutPrefix(fieldsOf(options), cluster.PodsByNode+"="); ok && shelf.name == "Pod" && r.p.w.current != nil {
			r.p.w.current.looked(node, r.p.api.version)
		}
		return nil
	})
}

func fieldsOf(options client.ListOptions) string {
	if options.FieldSelector == nil {
		return ""
	}
	return options.FieldSelector.String()
}

// selector returns a function that reports whether a list with these options contains an object of the shelf.
func selector(shelf *shelf, options client.ListOptions) func(client.Object) bool {
	type field struct {
		of    client.IndexerFunc
		value string
	}
	var wanted []field
	if options.FieldSelector != nil {
		for _, requirement := range options.FieldSelector.Requirements() {
			if index := shelf.indexes[requirement.Field]; index != nil {
				wanted = append(wanted, field{index, requirement.Value})
			}
		}
	}
	return func(o client.Object) bool {
		if options.Namespace != "" && options.Namespace != o.GetNamespace() {
			return false
		}
		if options.LabelSelector != nil && !options.LabelSelector.Matches(labels.Set(o.GetLabels())) {
			return false
		}
		return !slices.ContainsFunc(wanted, func(f field) bool { return !slices.Contains(f.of(o), f.value) })
	}
}

func (r remote) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	shelf := r.p.api.shelfOf(o)
	if _, event := o.(*corev1.Event); event { // events are not steps
		if r.p.dead {
			return errCrashed
		}
		_, err := r.p.api.create(o)
		return err
	}
	return r.p.call("create", shelf.name, o.GetName()+o.GetGenerateName(), func() error {
		stored, err := r.p.api.create(o)
		if err == nil {
			assign(o, stored.DeepCopyObject().(client.Object))
		}
		return err
	})
}

func (r remote) Delete(_ context.Context, o client.Object, opts ...client.DeleteOption) error {
	var options client.DeleteOptions
	options.ApplyOptions(opts)
	d := deletion{grace: options.GracePeriodSeconds}
	if p := options.Preconditions; p != nil {
		if p.UID != nil {
			d.uid = *p.UID
		}
		if p.ResourceVersion != nil {
			d.rv = *p.ResourceVersion
		}
	}
	shelf := r.p.api.shelfOf(o)
	return r.p.call("delete", shelf.name, keyOf(o), func() error { return r.p.api.remove(shelf, keyOf(o), d) })
}

func (r remote) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return r.patch(o, patch, false)
}

func (r remote) patch(o client.Object, patch client.Patch, status bool) error {
	data, err := patch.Data(o)
	if err != nil {
		return err
	}
	shelf := r.p.api.shelfOf(o)
	if r.p.w.switches.Patch != nil {
		data = r.p.w.switches.Patch(o, data)
	}
	if _, event := o.(*corev1.Event); event {
		return nil
	}
	what := "patch"
	if status {
		what = "patch status"
	}
	return r.p.call(what, shelf.name, keyOf(o)+" "+string(data), func() error {
		stored, err := r.p.api.patch(shelf, keyOf(o), patch.Type(), data, status)
		if err == nil {
			assign(o, stored.DeepCopyObject().(client.Object))
		}
		return err
	})
}

func (remote) Update(context.Context, client.Object, ...client.UpdateOption) error {
	return errNotServed
}

func (remote) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return errNotServed
}

func (remote) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return errNotServed
}

func (r remote) Status() client.SubResourceWriter { return sub{r, "status"} }

func (r remote) SubResource(name string) client.SubResourceClient { return sub{r, name} }

func (r remote) Scheme() *runtime.Scheme { return r.p.w.shared.scheme }

func (remote) RESTMapper() meta.RESTMapper { return nil }

func (r remote) GroupVersionKindFor(o runtime.Object) (schema.GroupVersionKind, error) {
	return apiutil.GVKForObject(o, r.Scheme())
}

func (remote) IsObjectNamespaced(o runtime.Object) (bool, error) {
	_, pod := o.(*corev1.Pod)
	return pod, nil
}

// sub writes a subresource: a status or an eviction.
type sub struct {
	remote
	name string
}

func (sub) Get(context.Context, client.Object, client.Object, ...client.SubResourceGetOption) error {
	return errNotServed
}

func (s sub) Create(_ context.Context, o, body client.Object, _ ...client.SubResourceCreateOption) error {
	if s.name != "eviction" {
		return errNotServed
	}
	var uid types.UID
	if d := evictionOf(body); d != nil && d.Preconditions != nil && d.Preconditions.UID != nil {
		uid = *d.Preconditions.UID
	}
	return s.p.call("evict", "Pod", keyOf(o), func() error { return s.p.w.evict(keyOf(o), uid) })
}

func (sub) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	return errNotServed
}

func (s sub) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.patch(o, patch, true)
}

func (sub) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return errNotServed
}
