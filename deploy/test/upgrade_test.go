package charttest

import (
	"testing"

	"helm.sh/helm/v3/pkg/action"
	helmcli "helm.sh/helm/v3/pkg/cli"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/playground/playgroundtest"
)

// helm is Helm's connection to the shared control plane. Its releases are kept in memory.
func helm(t *testing.T, namespace string) *action.Configuration {
	t.Helper()
	settings := helmcli.New()
	settings.KubeConfig = playgroundtest.Get(t).Kubeconfig()
	settings.SetNamespace(namespace)
	c := &action.Configuration{}
	if err := c.Init(settings.RESTClientGetter(), namespace, "memory", func(string, ...any) {}); err != nil {
		t.Fatal(err)
	}
	return c
}

func makeNamespace(t *testing.T, c client.Client, name string) {
	t.Helper()
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		t.Fatal(err)
	}
}

func upgrade(t *testing.T, helm *action.Configuration, r release) {
	t.Helper()
	c, err := r.load()
	if err != nil {
		t.Fatal(err)
	}
	values, err := r.values()
	if err != nil {
		t.Fatal(err)
	}
	u := action.NewUpgrade(helm)
	u.Namespace, u.SkipCRDs = r.namespace, true
	if _, err := u.RunWithContext(t.Context(), r.name, c, values); err != nil {
		t.Fatal(err)
	}
}

func install(t *testing.T, helm *action.Configuration, r release) {
	t.Helper()
	c, err := r.load()
	if err != nil {
		t.Fatal(err)
	}
	values, err := r.values()
	if err != nil {
		t.Fatal(err)
	}
	i := action.NewInstall(helm)
	i.ReleaseName, i.Namespace, i.SkipCRDs = r.name, r.namespace, true
	if _, err := i.RunWithContext(t.Context(), c, values); err != nil {
		t.Fatal(err)
	}
}

// What cannot be changed in place (selectors, what bindings refer to) has to be the same; every object stays the object that
// it was, and a rollback brings the old program back.
func TestHelmUpgradesAReleaseOfKarpentersInPlaceAndBack(t *testing.T) {
	t.Parallel()
	c := admin(t)
	ours := gettingStarted().with("replicas=0")
	ours.name, ours.namespace = "karpenter-upgraded", "upgraded"
	theirs := ours
	theirs.chart = "testdata/karpenter-upstream"
	makeNamespace(t, c, ours.namespace)
	helm := helm(t, ours.namespace)

	install(t, helm, theirs)
	before := read(t, c, ours)
	upgrade(t, helm, ours)
	after := read(t, c, ours)
	if after.UID != before.UID {
		t.Error("the Deployment was made anew")
	}
	loaded, err := ours.load()
	if err != nil {
		t.Fatal(err)
	}
	if after.Spec.Template.Spec.Containers[0].Image != "tenon.sh/controller:"+loaded.AppVersion() || after.Spec.Template.Spec.Containers[0].Args[0] != "controller" {
		t.Errorf("the upgrade did not change the program: %v", after.Spec.Template.Spec.Containers)
	}
	roll := action.NewRollback(helm)
	if err := roll.Run(ours.name); err != nil {
		t.Fatal(err)
	}
	back := read(t, c, ours)
	if container := back.Spec.Template.Spec.Containers[0]; back.UID != before.UID || container.Image != before.Spec.Template.Spec.Containers[0].Image || len(container.Args) > 0 {
		t.Errorf("the rollback left %v", container)
	}
}

func read(t *testing.T, c client.Client, r release) *appsv1.Deployment {
	t.Helper()
	d := &appsv1.Deployment{}
	if err := c.Get(t.Context(), types.NamespacedName{Namespace: r.namespace, Name: r.name}, d); err != nil {
		t.Fatal(err)
	}
	return d
}
