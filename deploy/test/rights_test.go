package charttest

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

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

// plainRights are those of the manifests without the chart: the default ones, which the playground's controller runs with, and those of
// some settings.
func plainRights(t *testing.T, settings ...string) []string {
	t.Helper()
	var objects []*unstructured.Unstructured
	for _, name := range []string{"rbac/rbac.yaml", "rbac/settings.yaml"} {
		file, err := deploy.RBAC.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
			o := &unstructured.Unstructured{}
			if err := decoder.Decode(o); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if setting := o.GetLabels()[deploy.RightsFor]; name == "rbac/rbac.yaml" || slices.Contains(settings, setting) {
				objects = append(objects, o)
			}
		}
	}
	return rightsOf(t, objects)
}

// askedRights are those that doctor asks about.
func askedRights(t *testing.T, o cli.ControllerOptions) (out []string) {
	t.Helper()
	asked, err := cli.RightsOf(&o, "kube-system")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range asked {
		resource := strings.Trim(r.Resource+"/"+r.Subresource, "/")
		right := strings.TrimSuffix(map[bool]string{true: "everywhere: ", false: "in " + r.Namespace + ": "}[r.Namespace == ""]+r.Verb+" "+resource+"."+r.Group, ".")
		out = append(out, strings.TrimSuffix(right+" "+r.Name, " "))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// mustBeAsked fails unless doctor asks about exactly the granted rights; it does not ask about paths.
func mustBeAsked(t *testing.T, name string, o cli.ControllerOptions, granted []string) {
	t.Helper()
	granted = slices.DeleteFunc(slices.Clone(granted), func(right string) bool { return strings.Contains(right, " /") })
	asked := askedRights(t, o)
	if more, lacks := without(asked, granted), without(granted, asked); len(more)+len(lacks) > 0 {
		t.Errorf("%s: doctor asks for %q, which the chart does not grant, and not for %q", name, more, lacks)
	}
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

// Each setting grants the rights that it needs and no others, in the chart as in the plain manifests, and doctor asks for them.
func TestRightsComeWithTheSettingThatNeedsThem(t *testing.T) {
	t.Parallel()
	gate := func(name string) func(*cli.ControllerOptions) {
		return func(o *cli.ControllerOptions) { o.FeatureGates = map[string]bool{name: true} }
	}
	devices := []string{
		"everywhere: list resourceclaims.resource.k8s.io", "everywhere: list resourceclaimtemplates.resource.k8s.io", "everywhere: list resourceslices.resource.k8s.io",
		"everywhere: watch resourceclaims.resource.k8s.io", "everywhere: watch resourceclaimtemplates.resource.k8s.io", "everywhere: watch resourceslices.resource.k8s.io",
	}
	claims := func(o *cli.ControllerOptions) { o.IgnoreDRARequests = false }
	off := rightsOf(t, render(t, gettingStarted().with("settings.cloudProvider=kwok")))
	for _, c := range []struct {
		value, plain string // of the chart, and of the label in deploy/rbac
		told         func(*cli.ControllerOptions)
		want         []string
	}{
		{"settings.featureGates.nodeOverlay", "NodeOverlay", gate("NodeOverlay"), []string{"everywhere: watch nodeoverlays.karpenter.sh"}},
		{"settings.featureGates.capacityBuffer", "CapacityBuffer", gate("CapacityBuffer"), []string{
			"everywhere: list deployments.apps", "everywhere: list podtemplates", "everywhere: list resourcequotas",
			"everywhere: watch capacitybuffers.autoscaling.x-k8s.io", "everywhere: watch deployments.apps", "everywhere: watch podtemplates", "everywhere: watch resourcequotas",
		}},
		{"settings.featureGates.provisioningRequest", "ProvisioningRequest", gate("ProvisioningRequest"), []string{
			"everywhere: list podtemplates", "everywhere: list provisioningrequests.autoscaling.x-k8s.io", "everywhere: patch provisioningrequests/status.autoscaling.x-k8s.io",
			"everywhere: watch podtemplates", "everywhere: watch provisioningrequests.autoscaling.x-k8s.io",
		}},
		{"settings.featureGates.podDeletionCostManagement", "PodDeletionCostManagement", gate("PodDeletionCostManagement"), []string{"everywhere: patch pods"}},
		{"settings.featureGates.nodeRepair", "", gate("NodeRepair"), nil},
		{"settings.featureGates.reservedCapacity", "", gate("ReservedCapacity"), nil},
		{"settings.featureGates.spotToSpotConsolidation", "", gate("SpotToSpotConsolidation"), nil},
		{"settings.featureGates.staticCapacity", "", gate("StaticCapacity"), nil},
		{"settings.featureGates.terminateFirstDrift", "", gate("TerminateFirstDrift"), nil},
		{"settings.featureGates.terminateFirstRepair", "", gate("TerminateFirstRepair"), nil},
		{"settings.enableDRA", "Devices", claims, devices},
		{"settings.awsFeatureGates.draNVIDIAGPU", "Devices", claims, devices},
		{"settings.awsFeatureGates.draEFA", "Devices", claims, devices},
	} {
		on := rightsOf(t, render(t, gettingStarted().with("settings.cloudProvider=kwok", c.value+"=true")))
		if more := without(on, off); !slices.Equal(more, c.want) || len(without(off, on)) > 0 {
			t.Errorf("with %s the chart grants %q as well, want %q, and not %q", c.value, more, c.want, without(off, on))
		}
		for _, none := range []string{"=false", "=null"} {
			if got := rightsOf(t, render(t, gettingStarted().with("settings.cloudProvider=kwok", c.value+none))); !slices.Equal(got, off) {
				t.Errorf("with %s%s the chart grants %q as well, and not %q", c.value, none, without(got, off), without(off, got))
			}
		}
		if got := plainRights(t, c.plain); !slices.Equal(got, on) {
			t.Errorf("%s: the plain manifests grant %q beside those of the chart, and not %q", c.value, without(got, on), without(on, got))
		}
		o := cli.DefaultControllerOptions()
		c.told(&o)
		mustBeAsked(t, c.value, o, on)
	}
}

func TestClaimsForDevicesAreReadOnlyIfTheyAreNotIgnored(t *testing.T) {
	t.Parallel()
	ignored := rightsOf(t, render(t, gettingStarted().with("settings.ignoreDRARequests=true")))
	read := rightsOf(t, render(t, gettingStarted().with("settings.ignoreDRARequests=false")))
	if usual := rightsOf(t, render(t, gettingStarted())); !slices.Equal(ignored, usual) {
		t.Errorf("with claims ignored the chart grants %q as well, and not %q", without(ignored, usual), without(usual, ignored))
	}
	if more := without(read, ignored); len(more) != 6 || len(without(ignored, read)) > 0 {
		t.Errorf("with claims the chart grants %q as well, and not %q", more, without(ignored, read))
	}
}

func TestEventsAreReadOnlyBesideClusterAutoscaler(t *testing.T) {
	t.Parallel()
	alone := rightsOf(t, render(t, gettingStarted().with("settings.cloudProvider=kwok")))
	beside := rightsOf(t, render(t, gettingStarted().with("settings.cloudProvider=kwok", "settings.clusterAutoscalerGrace=15m")))
	if more := without(beside, alone); !slices.Equal(more, []string{"everywhere: list events", "everywhere: watch events"}) || len(without(alone, beside)) > 0 {
		t.Errorf("the chart beside Cluster Autoscaler grants %q as well, and not %q", more, without(alone, beside))
	}
	if more := without(rightsOf(t, render(t, gettingStarted().with("settings.cloudProvider=kwok", "settings.clusterAutoscalerGrace=0"))), alone); len(more) > 0 {
		t.Errorf("with a grace of 0 it grants %q", more)
	}
	if got := plainRights(t, "ClusterAutoscaler"); !slices.Equal(got, beside) {
		t.Errorf("the plain manifests grant %q beside those of the chart, and not %q", without(got, beside), without(beside, got))
	}
	o := cli.DefaultControllerOptions()
	o.ClusterAutoscalerGrace = time.Minute
	mustBeAsked(t, "beside Cluster Autoscaler", o, beside)
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

// Doctor must not find fault with an installation that is as it should be, nor miss a right that the chart grants.
func TestDoctorAsksForTheRightsOfTheChart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		values []string
		told   func(*cli.ControllerOptions)
	}{
		"aws":            {nil, func(o *cli.ControllerOptions) { o.CloudProvider = "aws" }},
		"kwok":           {[]string{"settings.cloudProvider=kwok"}, func(o *cli.ControllerOptions) { o.CloudProvider = "kwok" }},
		"no nominations": {[]string{"settings.cloudProvider=kwok", "settings.nominatePods=false"}, func(o *cli.ControllerOptions) { o.NominatePods = false }},
		"clusterapi": {[]string{"settings.cloudProvider=clusterapi", "settings.clusterAPI.kubeconfigSecret=management"}, // others are asked about in the management cluster
			func(o *cli.ControllerOptions) { o.CloudProvider = "clusterapi" }},
		"azure": {[]string{"settings.cloudProvider=azure"}, func(o *cli.ControllerOptions) { o.CloudProvider, o.ProvisionMode = "azure", "userdata" }},
		"AKS":   {[]string{"settings.cloudProvider=azure", "settings.azure.provisionMode=aksscriptless"}, func(o *cli.ControllerOptions) { o.CloudProvider = "azure" }},
		"join tokens": {[]string{"settings.cloudProvider=azure", "settings.azure.joinTokens=true"}, func(o *cli.ControllerOptions) {
			o.CloudProvider, o.ProvisionMode, o.JoinTokens = "azure", "userdata", true
		}},
		"all gates": {[]string{"settings.featureGates.capacityBuffer=true", "settings.featureGates.provisioningRequest=true", "settings.featureGates.nodeOverlay=true", "settings.enableDRA=true"},
			func(o *cli.ControllerOptions) {
				o.CloudProvider, o.IgnoreDRARequests = "aws", false
				o.FeatureGates = map[string]bool{"CapacityBuffer": true, "ProvisioningRequest": true, "NodeOverlay": true}
			}},
	} {
		o := cli.DefaultControllerOptions()
		c.told(&o)
		mustBeAsked(t, name, o, rightsOf(t, render(t, gettingStarted().with(c.values...))))
	}
}
