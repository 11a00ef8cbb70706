package api_test

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"tenon.sh/api/crds"
	"tenon.sh/playground"
	"tenon.sh/playground/playgroundtest"
)

func TestMain(m *testing.M) {
	os.Exit(playgroundtest.RunWith(m, playground.Config{Components: []string{playground.Etcd, playground.APIServer}}))
}

// apiServer is a real API server with the generated definitions. Most objects are only validated (dry run), not stored.
type apiServer struct {
	ctx       context.Context
	client    dynamic.Interface
	resources map[schema.GroupVersionKind]schema.GroupVersionResource
	warnings  []string // warnings in answers; tests of one server run one after another
}

// HandleWarningHeader records a warning of the server.
func (s *apiServer) HandleWarningHeader(_ int, _ string, text string) {
	s.warnings = append(s.warnings, text)
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	config := playgroundtest.Get(t).RESTConfig()
	config.QPS = -1
	s := &apiServer{ctx: t.Context(), resources: map[schema.GroupVersionKind]schema.GroupVersionResource{}}
	config.WarningHandler = s
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	s.client = client
	definitions, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range definitions {
		s.install(t, crd)
	}
	return s
}

// install creates a definition and waits until its objects can be listed.
func (s *apiServer) install(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
	if err != nil {
		t.Fatal(err)
	}
	delete(content, "status")
	definitions := s.client.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
	if _, err := definitions.Create(s.ctx, &unstructured.Unstructured{Object: content}, metav1.CreateOptions{}); err != nil {
		t.Fatalf("install %s: %v", crd.Name, err)
	}
	for _, version := range crd.Spec.Versions {
		s.await(t, crd, version.Name)
	}
}

func (s *apiServer) await(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition, version string) {
	t.Helper()
	gvr := schema.GroupVersionResource{Group: crd.Spec.Group, Version: version, Resource: crd.Spec.Names.Plural}
	s.resources[gvr.GroupVersion().WithKind(crd.Spec.Names.Kind)] = gvr
	err := wait.PollUntilContextTimeout(s.ctx, 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := s.client.Resource(gvr).List(ctx, metav1.ListOptions{})
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("%s %s cannot be listed: %v", crd.Name, version, err)
	}
}

func (s *apiServer) of(obj *unstructured.Unstructured) dynamic.ResourceInterface {
	return s.client.Resource(s.resources[obj.GroupVersionKind()]).Namespace(obj.GetNamespace())
}

func (s *apiServer) create(obj *unstructured.Unstructured) error {
	if _, hasStatus := obj.Object["status"]; hasStatus {
		return s.withStored(obj, func(stored *unstructured.Unstructured) error {
			stored.Object["status"] = obj.Object["status"]
			_, err := s.of(obj).UpdateStatus(s.ctx, stored, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		})
	}
	_, err := s.of(obj).Create(s.ctx, obj, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
	return err
}

func (s *apiServer) update(old, obj *unstructured.Unstructured) error {
	return s.withStored(old, func(stored *unstructured.Unstructured) error {
		obj.SetName(stored.GetName())
		obj.SetResourceVersion(stored.GetResourceVersion())
		_, err := s.of(obj).Update(s.ctx, obj, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
}

func (s *apiServer) read(obj *unstructured.Unstructured) (read *unstructured.Unstructured, err error) {
	err = s.withStored(obj, func(stored *unstructured.Unstructured) error {
		if status, hasStatus := obj.Object["status"]; hasStatus {
			stored.Object["status"] = status
			if _, err := s.of(obj).UpdateStatus(s.ctx, stored, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		read, err = s.of(obj).Get(s.ctx, obj.GetName(), metav1.GetOptions{})
		return err
	})
	return read, err
}

// withStored creates obj, calls do with it and deletes it.
func (s *apiServer) withStored(obj *unstructured.Unstructured, do func(*unstructured.Unstructured) error) error {
	stored, err := s.of(obj).Create(s.ctx, obj, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create first: %w", err)
	}
	problem := do(stored)
	if err := s.of(obj).Delete(s.ctx, obj.GetName(), metav1.DeleteOptions{}); err != nil {
		return err
	}
	return problem
}

func TestRulesOnAnAPIServer(t *testing.T) {
	t.Parallel()
	s := newAPIServer(t)
	t.Run("cases", func(t *testing.T) { checkRules(t, s) })
	t.Run("counts", func(t *testing.T) { checkCounts(t, s) })
	t.Run("counts of Azure", func(t *testing.T) { checkAzureCounts(t, s) })
	t.Run("zones of DNS", func(t *testing.T) { checkDNSZones(t, s) })
	t.Run("provider labels", func(t *testing.T) { checkProviderLabels(t, s) })
	t.Run("typed", func(t *testing.T) { checkTyped(t, s) })
	t.Run("scale", func(t *testing.T) { checkScale(t, s) })
	t.Run("versions", func(t *testing.T) { checkVersions(t, s) })
}

// checkScale acts like kubectl scale on a static pool.
func checkScale(t *testing.T, s *apiServer) {
	pool := &unstructured.Unstructured{Object: clone(t, readRules(t)["nodepool"].Base)}
	pool.SetName("scaled")
	if err := unstructured.SetNestedField(pool.Object, int64(2), "spec", "replicas"); err != nil {
		t.Fatal(err)
	}
	err := s.withStored(pool, func(stored *unstructured.Unstructured) error {
		stored.Object["status"] = map[string]any{"nodes": int64(2)}
		if _, err := s.of(pool).UpdateStatus(s.ctx, stored, metav1.UpdateOptions{}); err != nil {
			return err
		}
		scale, err := s.of(pool).Get(s.ctx, "scaled", metav1.GetOptions{}, "scale")
		if err != nil {
			return err
		}
		if nodes, _, _ := unstructured.NestedInt64(scale.Object, "status", "replicas"); nodes != 2 {
			t.Errorf("scale says %d nodes, want 2", nodes)
		}
		if err := unstructured.SetNestedField(scale.Object, int64(5), "spec", "replicas"); err != nil {
			return err
		}
		if _, err := s.of(pool).Update(s.ctx, scale, metav1.UpdateOptions{}, "scale"); err != nil {
			return err
		}
		scaled, err := s.of(pool).Get(s.ctx, "scaled", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if replicas, _, _ := unstructured.NestedInt64(scaled.Object, "spec", "replicas"); replicas != 5 {
			t.Errorf("the pool has %d replicas, want 5", replicas)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// checkVersions writes a class in one version and reads it in the other.
func checkVersions(t *testing.T, s *apiServer) {
	const older, newer = "karpenter.azure.com/v1alpha2", "karpenter.azure.com/v1beta1"
	in := func(version string) *unstructured.Unstructured {
		class := &unstructured.Unstructured{Object: clone(t, readRules(t)["aksnodeclass"].Base)}
		class.SetAPIVersion(version)
		class.SetName("versions")
		return class
	}
	for written, read := range map[string]string{older: newer, newer: older} {
		s.warnings = nil
		err := s.withStored(in(written), func(stored *unstructured.Unstructured) error {
			warned := slices.Contains(s.warnings, "use v1beta1.AKSNodeClass instead")
			if warned != (written == older) {
				t.Errorf("writing %s warned %q", written, s.warnings)
			}
			back, err := s.of(in(read)).Get(s.ctx, stored.GetName(), metav1.GetOptions{})
			if err != nil {
				return err
			}
			if back.GetAPIVersion() != read || !reflect.DeepEqual(back.Object["spec"], stored.Object["spec"]) {
				t.Errorf("written as %s and read as %s: %v, want %v", written, read, back.Object, stored.Object["spec"])
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
