package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"tenon.sh/provider/clusterapi/contract"
	"tenon.sh/scenario"
)

// machineReader reads Cluster API's objects from a live cluster. Many clusters have none. If the account may not read a kind, machineReader
// prints a note and goes on, because nodes may show the same facts.
type machineReader struct {
	client dynamic.Interface
	mapper meta.RESTMapper
	notes  *terminal
	out    []scenario.Document
}

// readMachineDeployments reads the objects of Cluster API that describe machines for sale. It returns none if there is no MachineDeployment.
func readMachineDeployments(ctx context.Context, config *rest.Config, notes *terminal) ([]scenario.Document, error) {
	http, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("read Cluster API's objects: %w", err)
	}
	r := &machineReader{notes: notes}
	if r.client, err = dynamic.NewForConfigAndClient(config, http); err != nil {
		return nil, fmt.Errorf("read Cluster API's objects: %w", err)
	}
	if r.mapper, err = apiutil.NewDynamicRESTMapper(config, http); err != nil {
		return nil, fmt.Errorf("read Cluster API's objects: %w", err)
	}
	deployments, err := r.add(ctx, schema.GroupKind{Group: contract.Group, Kind: "MachineDeployment"}, contract.Versions...)
	if err != nil || len(deployments) == 0 {
		return nil, err
	}
	for _, kind := range []string{"Cluster", "MachineSet", "Machine"} {
		if _, err := r.add(ctx, schema.GroupKind{Group: contract.Group, Kind: kind}, contract.Versions...); err != nil {
			return nil, err
		}
	}
	for _, kind := range templateKinds(deployments) {
		if _, err := r.add(ctx, kind); err != nil {
			return nil, err
		}
	}
	return r.out, nil
}

// add reads all objects of a kind. It uses the first served version of the list, or the server's preferred version.
func (r *machineReader) add(ctx context.Context, kind schema.GroupKind, versions ...string) ([]scenario.Document, error) {
	mapping, err := r.mapper.RESTMapping(kind, versions...)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	var documents []scenario.Document
	if err == nil {
		documents, err = liveList(ctx, r.client, liveKind{GroupVersionResource: mapping.Resource, kind: kind.Kind})
	}
	switch {
	case apierrors.IsForbidden(err):
		r.notes.line("note: objects of kind %s are not read: %s", kind.Kind, oneLine(err))
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("list objects of kind %s: %w", kind.Kind, err)
	}
	r.out = append(r.out, documents...)
	return documents, nil
}

// templateKinds returns the kinds of infrastructure templates that the MachineDeployments name. It skips unreadable MachineDeployments,
// because other functions report them.
func templateKinds(deployments []scenario.Document) (out []schema.GroupKind) {
	for _, d := range deployments {
		var read contract.MachineDeployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(d.Object.Object, &read); err != nil {
			continue
		}
		kind := read.Spec.Template.Spec.InfrastructureRef.GroupKind()
		if strings.HasSuffix(kind.Kind, "MachineTemplate") && !slices.Contains(out, kind) {
			out = append(out, kind)
		}
	}
	slices.SortFunc(out, func(a, b schema.GroupKind) int { return strings.Compare(a.String(), b.String()) })
	return out
}
