package charttest

import (
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

// A value that is misspelt, of the wrong type or not one of those that there are is refused with its path, by helm template and by helm lint.
func TestAWrongValueIsRefusedWithItsPath(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{
		"dashbaord.enabled=true":                  "at '': additional properties 'dashbaord' not allowed",
		"settings.interuptionQueue=q":             "at '/settings': additional properties 'interuptionQueue' not allowed",
		"settings.azure.mode=userdata":            "at '/settings/azure': additional properties 'mode' not allowed",
		"settings.cloudProvider=gcp":              "at '/settings/cloudProvider': value must be one of 'aws', 'azure', 'clusterapi', 'kwok'",
		"settings.preferencePolicy=Sometimes":     "at '/settings/preferencePolicy': value must be one of 'Respect', 'Ignore', 'Weighted'",
		"settings.batchIdleDuration=soon":         "at '/settings/batchIdleDuration': 'soon' does not match pattern",
		"settings.minMemoryForPods=much":          "at '/settings/minMemoryForPods': 'much' does not match pattern",
		"settings.featureGates.nodeRepair=maybe":  "at '/settings/featureGates/nodeRepair': value must be one of true, false",
		"dashboard.port=70000":                    "at '/dashboard/port': maximum: got 70,000, want 65,535",
		"replicas=two":                            "at '/replicas': got string, want null or integer",
		"logLevel=loud":                           "at '/logLevel': value must be one of 'debug', 'info', 'error'",
		"tolerations=all":                         "at '/tolerations': got string, want null or array",
		"controller.image.repository[0]=registry": "at '/controller/image/repository': got array, want null or string",
	} {
		if _, err := gettingStarted().with(set).render(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant %q", set, err, want)
		}
		values, err := gettingStarted().with(set).values()
		if err != nil {
			t.Fatal(err)
		}
		if result := action.NewLint().Run([]string{"../charts/karpenter"}, values); len(result.Errors) == 0 {
			t.Errorf("%s: helm lint finds nothing", set)
		}
	}
	definitions := release{chart: "../charts/karpenter-crd", name: "karpenter-crd", namespace: "kube-system", set: []string{"additionalAnnotations=keep"}}
	if _, err := definitions.render(); err == nil || !strings.Contains(err.Error(), "at '/additionalAnnotations': got string, want null or object") {
		t.Errorf("karpenter-crd: %v", err)
	}
}

// What other charts and Helm itself put beside the values is let through, and so is what Karpenter's charts know as the empty object.
func TestValuesOfParentChartsAreLetThrough(t *testing.T) {
	t.Parallel()
	render(t, gettingStarted().with("global.a=b", "enabled=true", "x-common.a=b", "initContainers={}", "webhook.enabled=false", "serviceMonitor.sampleLimit=null"))
}

// The notes after an installation name the image, and say so if no registry has it.
func TestTheNotesSayWhatToDoNext(t *testing.T) {
	t.Parallel()
	notes := func(r release) string {
		c, err := loader.Load(r.chart)
		if err != nil {
			t.Fatal(err)
		}
		values, err := r.values()
		if err != nil {
			t.Fatal(err)
		}
		all, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: r.name, Namespace: r.namespace, IsInstall: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		files, err := engine.Render(c, all)
		if err != nil {
			t.Fatal(err)
		}
		return files["karpenter/templates/NOTES.txt"]
	}
	const noRegistry = "No registry has this image"
	usual := notes(gettingStarted())
	for _, want := range []string{"in namespace kube-system, with cloud aws", noRegistry, "deployment/karpenter -- tenon doctor"} {
		if !strings.Contains(usual, want) {
			t.Errorf("%q is not in\n%s", want, usual)
		}
	}
	own := notes(gettingStarted().with("controller.image.repository=registry.example.com/tenon", "controller.image.tag=1", "dashboard.enabled=true"))
	if strings.Contains(own, noRegistry) || !strings.Contains(own, "image registry.example.com/tenon:1.") || !strings.Contains(own, "port 8443 of Service karpenter") {
		t.Errorf("with an image of one's own:\n%s", own)
	}
}
