package charttest

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"tenon.sh/cli"
	"tenon.sh/deploy"
)

// rightsOf lists what roles allow, one right a line: where, verb, resource, and the only object if there is one.
func rightsOf(t *testing.T, objects []*unstructured.Unstructured) []string {
	t.Helper()
	var out []string
	for _, o := range objects {
		if o.GetKind() != "ClusterRole" && o.GetKind() != "Role" || strings.HasSuffix(o.GetName(), "-admin") {
			continue
		}
		role := &rbacv1.Role{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, role); err != nil {
			t.Fatal(err)
		}
		where := "everywhere"
		if o.GetKind() == "Role" {
			where = "in " + o.GetNamespace()
		}
		for _, rule := range role.Rules {
			for _, path := range rule.NonResourceURLs {
				out = append(out, where+": "+strings.Join(rule.Verbs, ",")+" "+path)
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						right := where + ": " + verb + " " + strings.TrimSuffix(resource+"."+group, ".")
						if len(rule.ResourceNames) > 0 {
							right += " " + strings.Join(rule.ResourceNames, ",")
						}
						out = append(out, right)
					}
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// without are the lines of a that b lacks.
func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(line string) bool { return slices.Contains(b, line) })
}

// plainRights are those of the manifests that the playground's controller runs with.
func plainRights(t *testing.T) []string {
	t.Helper()
	var objects []*unstructured.Unstructured
	err := fs.WalkDir(deploy.RBAC, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		file, err := deploy.RBAC.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
			o := &unstructured.Unstructured{}
			if err := decoder.Decode(o); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			objects = append(objects, o)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return rightsOf(t, objects)
}

func TestTheChartGrantsWhatTheControllerNeedsAndNoMore(t *testing.T) {
	t.Parallel()
	plain := plainRights(t)
	if len(plain) < 50 {
		t.Fatalf("only %q", plain)
	}
	// deploy/rbac is for a simulated cloud, so the chart for one grants the same.
	simulated := rightsOf(t, render(t, gettingStarted().with("settings.cloudProvider=kwok")))
	if lacks := without(plain, simulated); len(lacks) > 0 {
		t.Errorf("simulated cloud: the chart does not grant %q", lacks)
	}
	if more := without(simulated, plain); len(more) > 0 {
		t.Errorf("simulated cloud: the chart grants %q as well", more)
	}
	aws := rightsOf(t, render(t, gettingStarted()))
	want := []string{
		"everywhere: list ec2nodeclasses.karpenter.k8s.aws",
		"everywhere: patch ec2nodeclasses.karpenter.k8s.aws",
		"everywhere: patch ec2nodeclasses/status.karpenter.k8s.aws",
		"everywhere: watch ec2nodeclasses.karpenter.k8s.aws",
		"in kube-system: get services kube-dns",
	}
	if more := without(aws, simulated); !slices.Equal(more, want) {
		t.Errorf("AWS: the chart grants %q beside what a simulated cloud needs, want %q", more, want)
	}
	machines := []string{"everywhere: create nodes", "everywhere: create csinodes.storage.k8s.io", "everywhere: create resourceslices.resource.k8s.io", "everywhere: patch nodes/status"}
	for _, right := range without(simulated, aws) {
		if !strings.Contains(right, "karpenter.kwok.sh") && !slices.Contains(machines, right) {
			t.Errorf("AWS: the chart does not grant %s", right)
		}
	}
}

func TestAzureNeedsItsClassesAndTokensOnlyIfTheyAreMade(t *testing.T) {
	t.Parallel()
	aws := rightsOf(t, render(t, gettingStarted()))
	azure := rightsOf(t, render(t, gettingStarted().with("settings.cloudProvider=azure")))
	want := []string{
		"everywhere: list aksnodeclasses.karpenter.azure.com",
		"everywhere: patch aksnodeclasses.karpenter.azure.com",
		"everywhere: patch aksnodeclasses/status.karpenter.azure.com",
		"everywhere: watch aksnodeclasses.karpenter.azure.com",
	}
	if more := without(azure, aws); !slices.Equal(more, want) {
		t.Errorf("the chart grants %q beside what AWS needs, want %q", more, want)
	}
	aks := rightsOf(t, render(t, gettingStarted().with("settings.cloudProvider=azure", "settings.azure.provisionMode=aksscriptless")))
	want = []string{"in kube-system: get configmaps upcoming-maintenance-window", "in kube-system: get services kube-dns"}
	if more := without(aks, azure); !slices.Equal(more, want) {
		t.Errorf("in AKS the chart grants %q as well, want %q", more, want)
	}
	tokens := rightsOf(t, render(t, gettingStarted().with("settings.cloudProvider=azure", "settings.azure.joinTokens=true")))
	want = []string{
		"in kube-system: create secrets", "in kube-system: delete secrets", "in kube-system: get secrets", "in kube-system: list secrets", "in kube-system: update secrets",
	}
	if more := without(tokens, azure); !slices.Equal(more, want) {
		t.Errorf("with tokens the chart grants %q as well, want %q", more, want)
	}
}

func TestClusterAPIIsScaledAndMarkedAndNothingElse(t *testing.T) {
	t.Parallel()
	aws := rightsOf(t, render(t, gettingStarted()))
	joined := rightsOf(t, render(t, gettingStarted().with("settings.cloudProvider=clusterapi")))
	apart := rightsOf(t, render(t, gettingStarted().with("settings.cloudProvider=clusterapi", "settings.clusterAPI.kubeconfigSecret=management")))
	want := []string{
		"everywhere: list clusterapinodeclasses.karpenter.cluster.x-k8s.io",
		"everywhere: patch clusterapinodeclasses/status.karpenter.cluster.x-k8s.io",
		"everywhere: watch clusterapinodeclasses.karpenter.cluster.x-k8s.io",
	}
	if more := without(apart, aws); !slices.Equal(more, want) {
		t.Errorf("two clusters: the chart grants %q beside what AWS needs, want %q", more, want)
	}
	text, err := os.ReadFile("../clusterapi/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for _, document := range strings.Split(string(text), "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
	management := rightsOf(t, objects)
	if more := without(joined, apart); !slices.Equal(more, management) {
		t.Errorf("one cluster: the chart grants %q for the management cluster, and deploy/clusterapi %q", more, management)
	}
	for _, right := range management {
		if strings.Contains(right, "patch") || strings.Contains(right, "delete") {
			if !strings.HasSuffix(right, " machines.cluster.x-k8s.io") && !strings.HasSuffix(right, " machinedeployments/scale.cluster.x-k8s.io") {
				t.Error(right)
			}
		}
	}
}

func TestWithoutNominationsNobodyMayWriteTheStatusOfPods(t *testing.T) {
	t.Parallel()
	with := rightsOf(t, render(t, gettingStarted()))
	off := rightsOf(t, render(t, gettingStarted().with("settings.nominatePods=false")))
	if lost := without(with, off); !slices.Equal(lost, []string{"everywhere: patch pods/status"}) || len(without(off, with)) > 0 {
		t.Errorf("the chart without nominations does not grant %q, and %q as well", lost, without(off, with))
	}
}

func TestPodsAreWrittenToOnlyForTheirDeletionCosts(t *testing.T) {
	t.Parallel()
	off := rightsOf(t, render(t, gettingStarted()))
	on := rightsOf(t, render(t, gettingStarted().with("settings.featureGates.podDeletionCostManagement=true")))
	if more := without(on, off); !slices.Equal(more, []string{"everywhere: patch pods"}) || len(without(off, on)) > 0 {
		t.Errorf("with the gate the chart grants %q as well, and not %q", more, without(off, on))
	}
}

func TestEventsAreReadOnlyBesideClusterAutoscaler(t *testing.T) {
	t.Parallel()
	alone := rightsOf(t, render(t, gettingStarted()))
	beside := rightsOf(t, render(t, gettingStarted().with("settings.clusterAutoscalerGrace=15m")))
	if more := without(beside, alone); !slices.Equal(more, []string{"everywhere: list events", "everywhere: watch events"}) || len(without(alone, beside)) > 0 {
		t.Errorf("the chart beside Cluster Autoscaler grants %q as well, and not %q", more, without(alone, beside))
	}
	if more := without(rightsOf(t, render(t, gettingStarted().with("settings.clusterAutoscalerGrace=0"))), alone); len(more) > 0 {
		t.Errorf("with a grace of 0 it grants %q", more)
	}
}

// Which rights a controller uses, a test of it as a whole knows; those that only AWS's does, nobody but moto sees.
func TestAllThatIsUpdatedIsTheLeaseAndFinalizers(t *testing.T) {
	t.Parallel()
	for _, cloud := range []string{"aws", "kwok", "clusterapi"} {
		for _, right := range rightsOf(t, render(t, gettingStarted().with("settings.cloudProvider="+cloud))) {
			reads := strings.Contains(right, ": get ") || strings.Contains(right, ": list ") || strings.Contains(right, ": watch ")
			switch {
			case strings.Contains(right, ": update ") && !strings.Contains(right, "/finalizers.") && !strings.Contains(right, " leases."):
				t.Errorf("%s: %s: everything else is patched", cloud, right)
			case reads && strings.Contains(right, "/status"):
				t.Errorf("%s: %s: an object comes with its status", cloud, right)
			}
		}
	}
}

func TestNothingReadsSecretsOrGrantsEverything(t *testing.T) {
	t.Parallel()
	for _, right := range rightsOf(t, render(t, gettingStarted())) {
		if strings.Contains(right, "*") || strings.Contains(right, "secrets") || strings.Contains(right, "configmaps") {
			t.Error(right)
		}
	}
}

// Users of tenon plan and tenon snapshot borrow an account: it must be of use for nothing else.
func TestTheAccountForSnapshotsReadsTheCatalogAndNothingElse(t *testing.T) {
	t.Parallel()
	usual := render(t, gettingStarted())
	more := render(t, gettingStarted().with("snapshotAccount.create=true"))
	if len(more) != len(usual)+3 {
		t.Errorf("%d objects, %d without the account", len(more), len(usual))
	}
	find(t, more, "ServiceAccount", "tenon-snapshot")
	role := find(t, more, "ClusterRole", "karpenter-snapshot")
	if got := rightsOf(t, []*unstructured.Unstructured{role}); !slices.Equal(got, []string{"everywhere: get /journal", "everywhere: get /snapshot/catalog"}) {
		t.Errorf("it may %q", got)
	}
	binding := &rbacv1.ClusterRoleBinding{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(find(t, more, "ClusterRoleBinding", "karpenter-snapshot").Object, binding); err != nil {
		t.Fatal(err)
	}
	if len(binding.Subjects) != 1 || binding.Subjects[0].Name != "tenon-snapshot" || binding.RoleRef.Name != "karpenter-snapshot" {
		t.Errorf("%v for %v", binding.RoleRef, binding.Subjects)
	}
}

// The dashboard is served only if it is asked for, and then grants nothing to anybody.
func TestTheDashboardIsOffAndItsRoleIsBoundToNobody(t *testing.T) {
	t.Parallel()
	usual := render(t, gettingStarted())
	more := render(t, gettingStarted().with("dashboard.enabled=true", "dashboard.port=9443"))
	if len(more) != len(usual)+1 {
		t.Errorf("%d objects, %d without the dashboard", len(more), len(usual))
	}
	role := find(t, more, "ClusterRole", "karpenter-dashboard")
	if got := rightsOf(t, []*unstructured.Unstructured{role}); !slices.Equal(got, []string{"everywhere: get /dashboard"}) {
		t.Errorf("it may %q", got)
	}
	for _, o := range more {
		if strings.HasSuffix(o.GetKind(), "Binding") && strings.Contains(text(t, o), "karpenter-dashboard") {
			t.Errorf("%s %s lets somebody look", o.GetKind(), o.GetName())
		}
	}
	for kind, want := range map[string]string{"Deployment": `{"containerPort":9443,"name":"dashboard","protocol":"TCP"}`, "Service": `{"name":"dashboard","port":9443,"protocol":"TCP","targetPort":"dashboard"}`} {
		if got := text(t, find(t, more, kind, "karpenter")); !strings.Contains(got, want) {
			t.Errorf("%s lacks %s", kind, want)
		}
		if got := text(t, find(t, usual, kind, "karpenter")); strings.Contains(got, `"dashboard"`) {
			t.Errorf("%s has a port for what is off", kind)
		}
	}
	if got := environment(deployment(t, gettingStarted().with("dashboard.enabled=true"), "karpenter"))["TENON_DASHBOARD_PORT"]; got != "8443" {
		t.Errorf("the controller is told port %q", got)
	}
}

// A Secret with a certificate for browsers is mounted where the controller is told to look.
func TestTheDashboardsCertificateIsMounted(t *testing.T) {
	t.Parallel()
	d := deployment(t, gettingStarted().with("dashboard.enabled=true", "dashboard.certificateSecret=page"), "karpenter")
	told := environment(d)
	if told["TENON_DASHBOARD_TLS_CERT_FILE"] != "/etc/karpenter/dashboard/tls.crt" || told["TENON_DASHBOARD_TLS_PRIVATE_KEY_FILE"] != "/etc/karpenter/dashboard/tls.key" {
		t.Errorf("the controller is told %v", told)
	}
	pod := d.Spec.Template.Spec
	if len(pod.Volumes) != 1 || pod.Volumes[0].Secret == nil || pod.Volumes[0].Secret.SecretName != "page" {
		t.Errorf("volumes %v", pod.Volumes)
	}
	if mounts := pod.Containers[0].VolumeMounts; len(mounts) != 1 || mounts[0].MountPath != "/etc/karpenter/dashboard" || mounts[0].Name != pod.Volumes[0].Name || !mounts[0].ReadOnly {
		t.Errorf("mounts %v", mounts)
	}
	if told := environment(deployment(t, gettingStarted().with("dashboard.certificateSecret=page"), "karpenter")); told["TENON_DASHBOARD_TLS_CERT_FILE"] != "" {
		t.Error("a dashboard that is off has a certificate")
	}
}

// Doctor asks about what the chart grants: it must not find fault with an installation that is as it should be.
func TestDoctorAsksForNoRightThatTheChartDoesNotGrant(t *testing.T) {
	t.Parallel()
	for _, cloud := range []string{"aws", "kwok", "clusterapi"} {
		granted := rightsOf(t, render(t, gettingStarted().with("settings.cloudProvider="+cloud)))
		asked, err := cli.RightsOf(cloud, "kube-system")
		if err != nil || len(asked) < 50 {
			t.Fatalf("%s: doctor asks about %d rights: %v", cloud, len(asked), err)
		}
		for _, r := range asked {
			resource := strings.Trim(r.Resource+"/"+r.Subresource, "/")
			right := strings.TrimSuffix(map[bool]string{true: "everywhere: ", false: "in kube-system: "}[r.Namespace == ""]+r.Verb+" "+resource+"."+r.Group, ".")
			if r.Name != "" {
				right += " " + r.Name
			}
			if !slices.Contains(granted, right) {
				t.Errorf("%s: doctor asks for %q", cloud, right)
			}
		}
	}
}
