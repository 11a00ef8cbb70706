package main

import (
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
)

// modulePath is what import paths of this repository start with.
const modulePath = "tenon.sh"

// An importRule says what the packages that a pattern names may import. Patterns are those of the go command, relative to the
// module: "engine" is one package, "api/..." it and all below. The first rule whose pattern matches holds.
type importRule struct {
	packages string
	ours     []string // patterns of our own packages
	also     []string // import paths, with everything below, beyond those open to all
	never    []string // import paths that are closed in spite of all that
	pure     bool     // the standard library only, and none of the calls in impureCalls
	alone    bool     // not even the paths that are open to all
}

// openToAll lists what every package may import beside the standard library.
var openToAll = []string{"k8s.io/api", "k8s.io/apimachinery"}

// Sets of third-party modules that go together.
var (
	kubernetesClient = []string{"k8s.io/client-go", "k8s.io/utils", "sigs.k8s.io/controller-runtime", "sigs.k8s.io/yaml", "golang.org/x/sync", "golang.org/x/time"}
	logging          = []string{"github.com/go-logr/logr", "github.com/go-logr/zapr", "go.uber.org/zap", "k8s.io/klog/v2"}
	prometheus       = []string{"github.com/prometheus/client_golang", "github.com/prometheus/client_model"}
)

// azureSDK is linked by provider/azure alone: it is large, and the engine knows no cloud.
const azureSDK = "github.com/Azure/azure-sdk-for-go/sdk"

// pureAWS are the packages of the AWS provider that only compute what a class can buy: the provider does so from EC2's answers,
// the built-in catalog from figures that come with the program.
var pureAWS = []string{"provider/aws/assortment", "provider/aws/devicetable", "provider/aws/expression", "provider/aws/images", "provider/aws/kubelet", "provider/aws/size"}

// pureAzure are the same of the Azure provider.
var pureAzure = []string{"provider/azure/assortment", "provider/azure/price", "provider/azure/size"}

// notInTheEngine lists the parts of the standard library through which a decision could come to depend on something other
// than its arguments.
var notInTheEngine = []string{"context", "crypto/rand", "log", "math/rand", "net", "os", "syscall"}

// impureCalls are closed in the packages whose rule says pure, for the same reason.
var impureCalls = []string{
	"time.Now", "time.Since", "time.Until", "time.LoadLocation", "time.Sleep", "time.After", "time.AfterFunc", "time.Tick",
	"time.NewTimer", "time.NewTicker",
}

// importRules is the table "Who may import whom" of ARCHITECTURE.md as data. Test files may import what they like.
var importRules = []importRule{
	{packages: ".", ours: []string{"cli"}, also: []string{"golang.org/x/crypto/x509roots/fallback"}},
	{packages: "api/crds", ours: []string{"api/..."}, also: []string{"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1", "sigs.k8s.io/yaml"}},
	{packages: "api/...", ours: []string{"api/..."}, also: []string{"github.com/mitchellh/hashstructure/v2", "sigs.k8s.io/controller-runtime/pkg/scheme"}},

	// The engine, from the bottom to the top: each may import what stands above it here.
	{packages: "engine/bitset", pure: true, alone: true, never: notInTheEngine},
	{packages: "engine/capacity", pure: true, alone: true, never: notInTheEngine},
	{packages: "engine/parallel", pure: true, alone: true, never: notInTheEngine},
	{packages: "engine/device", pure: true, alone: true, never: notInTheEngine},
	{packages: "engine/requirement", ours: []string{"engine/bitset"}, pure: true, alone: true, never: notInTheEngine},
	{packages: "engine/topology", ours: []string{"engine/bitset"}, pure: true, alone: true, never: notInTheEngine},
	{packages: "engine/bound", ours: []string{"engine/bitset", "engine/capacity"}, pure: true, alone: true, never: notInTheEngine},
	{packages: "engine/packing", ours: []string{"engine/bitset", "engine/bound", "engine/capacity", "engine/parallel", "engine/topology"}, pure: true, alone: true, never: notInTheEngine},
	{packages: "engine/consolidation", ours: []string{"engine/bitset", "engine/capacity", "engine/parallel"}, pure: true, alone: true, never: notInTheEngine},
	{packages: "engine", ours: []string{"engine/parallel", "engine/device", "api/..."}, never: notInTheEngine, pure: true},
	{packages: "engine/enginetest", ours: []string{"engine", "api/..."}, also: []string{"sigs.k8s.io/yaml"}, never: notInTheEngine, pure: true},
	{packages: "engine/kube", ours: []string{"engine", "api/...", "engine/capacity", "engine/requirement"}, never: notInTheEngine, pure: true},
	{packages: "engine/accelerator", ours: []string{"engine"}, never: notInTheEngine, pure: true},
	{packages: "engine/overlay", ours: []string{"engine", "api/...", "engine/accelerator", "engine/kube", "engine/requirement"}, never: notInTheEngine, pure: true},
	{packages: "engine/gang", ours: []string{"engine", "api/...", "engine/kube"}, never: notInTheEngine, pure: true},
	{packages: "engine/buffer", ours: []string{"engine", "api/...", "engine/kube"}, never: notInTheEngine, pure: true},
	{packages: "engine/booking", ours: []string{"engine", "api/...", "engine/kube", "engine/buffer"}, never: notInTheEngine, pure: true},
	{packages: "engine/dra", ours: []string{"engine/kube", "engine/device"}, never: notInTheEngine, pure: true},
	{packages: "engine/deviceplan", ours: []string{"engine", "api/...", "engine/kube", "engine/device", "engine/dra", "engine/inventory", "engine/requirement"}, never: notInTheEngine, pure: true},
	{packages: "engine/volume", ours: []string{"engine", "api/...", "engine/kube", "engine/bitset", "engine/capacity", "engine/requirement"}, never: notInTheEngine, pure: true},
	{packages: "engine/inventory", ours: []string{"engine", "api/...", "engine/accelerator", "engine/device", "engine/dra", "engine/kube", "engine/volume", "engine/bitset", "engine/capacity", "engine/parallel", "engine/requirement"}, never: notInTheEngine, pure: true},
	{packages: "engine/ondemand", ours: []string{"engine", "api/...", "engine/kube", "engine/inventory"}, never: notInTheEngine, pure: true},
	{packages: "engine/budget", ours: []string{"engine", "api/...", "engine/kube", "engine/inventory"}, also: []string{"github.com/robfig/cron/v3"}, never: notInTheEngine, pure: true},
	{packages: "engine/lifecycle", ours: []string{"engine", "api/...", "engine/dra", "engine/kube", "engine/inventory", "engine/budget"}, never: notInTheEngine, pure: true},
	{packages: "engine/scheduler", ours: []string{"engine", "api/...", "engine/kube", "engine/deviceplan", "engine/volume", "engine/inventory", "engine/bitset", "engine/capacity", "engine/requirement"}, never: notInTheEngine, pure: true},
	{packages: "engine/constraints", ours: []string{"engine", "api/...", "engine/dra", "engine/kube", "engine/deviceplan", "engine/volume", "engine/inventory", "engine/bitset", "engine/capacity", "engine/requirement", "engine/topology", "engine/packing"}, never: notInTheEngine, pure: true},
	{packages: "engine/offering", ours: []string{"engine", "api/...", "engine/kube", "engine/inventory", "engine/constraints", "engine/bitset", "engine/capacity", "engine/requirement", "engine/topology", "engine/packing"}, never: notInTheEngine, pure: true},
	{packages: "engine/lossgroup", ours: []string{"engine", "api/...", "engine/inventory", "engine/offering", "engine/bitset", "engine/capacity", "engine/packing"}, never: notInTheEngine, pure: true},
	{packages: "engine/launchbackoff", ours: []string{"engine", "api/...", "engine/dra", "engine/gang", "engine/kube", "engine/inventory", "engine/constraints"}, never: notInTheEngine, pure: true},
	{packages: "engine/provisioning", ours: []string{"engine", "engine/launchbackoff", "engine/lossgroup", "api/...", "engine/dra", "engine/kube", "engine/deviceplan", "engine/volume", "engine/buffer", "engine/booking", "engine/gang", "engine/inventory", "engine/ondemand", "engine/budget", "engine/constraints", "engine/offering", "engine/bitset", "engine/capacity", "engine/requirement", "engine/topology", "engine/packing"}, never: notInTheEngine, pure: true},
	{packages: "engine/limits", ours: []string{"engine", "api/...", "engine/kube", "engine/inventory", "engine/provisioning"}, never: notInTheEngine, pure: true},
	{packages: "engine/nomination", ours: []string{"engine", "api/...", "engine/kube", "engine/inventory", "engine/lifecycle", "engine/scheduler", "engine/provisioning"}, never: notInTheEngine, pure: true},
	{packages: "engine/replacement", ours: []string{"engine", "api/...", "engine/kube", "engine/inventory", "engine/budget", "engine/constraints", "engine/provisioning"}, never: notInTheEngine, pure: true},
	{packages: "engine/yield", ours: []string{"engine/capacity"}, never: notInTheEngine, pure: true},
	{packages: "engine/disruption", ours: []string{"engine", "engine/yield", "api/...", "engine/gang", "engine/booking", "engine/kube", "engine/inventory", "engine/ondemand", "engine/budget", "engine/lifecycle", "engine/scheduler", "engine/constraints", "engine/provisioning", "engine/limits", "engine/nomination", "engine/replacement", "engine/bitset", "engine/capacity", "engine/topology", "engine/packing", "engine/bound", "engine/consolidation"}, never: notInTheEngine, pure: true},
	{packages: "engine/advice", ours: []string{"engine", "api/...", "engine/kube", "engine/inventory", "engine/provisioning"}, never: notInTheEngine, pure: true},
	{packages: "engine/explain", ours: []string{"engine", "api/...", "engine/gang", "engine/booking", "engine/accelerator", "engine/dra", "engine/kube", "engine/volume", "engine/inventory", "engine/ondemand", "engine/budget", "engine/offering", "engine/provisioning", "engine/disruption"}, never: notInTheEngine, pure: true},

	{packages: "scenario/...", ours: slices.Concat([]string{"scenario/...", "deviceselector", "engine", "engine/...", "api/...", "provider/catalog", "provider/clusterapi/contract", "provider/clusterapi/assortment", "unrendered"}, pureAzure), also: []string{"sigs.k8s.io/yaml", "go.yaml.in/yaml/v3", "k8s.io/utils/ptr", "k8s.io/apiextensions-apiserver", "k8s.io/apiserver", "k8s.io/kube-openapi"}},

	{packages: "provider", ours: []string{"engine", "api/..."}},
	{packages: "provider/catalog/...", ours: slices.Concat([]string{"provider", "engine", "engine/device", "api/...", "provider/catalog"}, pureAWS, pureAzure)},
	{packages: "provider/offer", ours: []string{"engine", "engine/kube", "api/..."}},
	{packages: "provider/batch", alone: true},
	{packages: "provider/fresh", also: []string{"k8s.io/utils"}},
	{packages: "provider/stamp", ours: []string{"api/..."}, also: kubernetesClient},
	{packages: "provider/jointoken", ours: []string{"api/..."}, also: kubernetesClient},
	{packages: "provider/providertest", ours: []string{"provider", "provider/catalog", "engine", "api/..."}, also: []string{"k8s.io/utils"}},
	{packages: "provider/simulated", ours: []string{"provider", "provider/catalog", "provider/offer", "engine", "engine/device", "engine/dra", "api/..."}, also: []string{"k8s.io/utils"}},
	{packages: "provider/kwok", ours: []string{"provider", "provider/catalog", "provider/simulated", "engine", "engine/kube", "api/..."}, also: append(kubernetesClient, logging...)},
	{packages: "provider/aws/size", ours: []string{"provider/aws/kubelet", "provider/aws/expression", "provider/aws/userdata", "engine", "engine/accelerator", "engine/kube", "api/..."}},
	{packages: "provider/aws/images", ours: []string{"engine", "api/..."}},
	{packages: "provider/aws/assortment", ours: []string{"engine/device", "provider/aws/devicetable", "provider/aws/size", "provider/aws/images", "provider/aws/expression", "engine", "api/..."}},
	{packages: "provider/aws/kubelet", ours: []string{"api/..."}, also: []string{"k8s.io/kubelet/config/v1beta1", "sigs.k8s.io/json"}},
	{packages: "provider/aws/expression", also: []string{"github.com/google/cel-go"}},
	{packages: "provider/aws/devicetable", ours: []string{"provider/aws/size", "engine/device"}},
	{packages: "provider/aws/userdata", ours: []string{"engine/accelerator"}, also: []string{"github.com/pelletier/go-toml/v2", "sigs.k8s.io/yaml"}},
	{packages: "provider/aws/...", ours: []string{"provider/aws/...", "provider", "provider/batch", "provider/catalog", "provider/fresh", "provider/offer", "provider/stamp", "engine", "api/..."},
		also: append([]string{"github.com/aws", "github.com/google/cel-go", "k8s.io/kubelet/config/v1beta1", "sigs.k8s.io/json", "github.com/prometheus/client_golang"}, kubernetesClient...)},
	{packages: "provider/azure/size", ours: []string{"engine/kube", "api/..."}, also: []string{"k8s.io/utils"}},
	{packages: "provider/azure/price"},
	{packages: "provider/azure/assortment", ours: []string{"provider/azure/price", "provider/azure/size", "engine", "api/..."}},
	{packages: "provider/azure/sku", ours: []string{"provider/azure/size"}, also: []string{azureSDK}},
	{packages: "provider/azure/network"},
	{packages: "provider/azure/cloud", ours: []string{"provider/azure/network"}, also: []string{azureSDK, "k8s.io/utils", "golang.org/x/time"}},
	{packages: "provider/azure/userdata", ours: []string{"api/..."}},
	{packages: "provider/azure/bootstrap", ours: []string{"api/...", "provider/azure/userdata"}, pure: true},
	{packages: "provider/azure/azuretest", also: []string{azureSDK + "/azcore", "k8s.io/utils"}}, // an Azure is no client of Azure
	{packages: "provider/azure/...", ours: []string{"provider/azure/...", "provider", "provider/catalog", "provider/fresh", "provider/jointoken", "provider/offer", "provider/stamp", "engine", "api/..."},
		also: append([]string{azureSDK, "github.com/prometheus/client_golang", "golang.org/x/crypto/ssh"}, kubernetesClient...)},
	{packages: "provider/clusterapi/contract"},
	{packages: "provider/clusterapi/assortment", ours: []string{"provider/clusterapi/contract", "engine", "engine/kube", "api/..."}},
	{packages: "provider/clusterapi", ours: []string{"provider/clusterapi/...", "provider", "provider/batch", "provider/catalog", "provider/offer", "engine", "engine/kube", "api/..."},
		also: append(kubernetesClient, logging...)},

	{packages: "cluster/lane", alone: true},
	{packages: "cluster/term", also: slices.Concat(kubernetesClient, logging)},
	{packages: "cluster", ours: []string{"engine", "engine/device", "engine/kube", "engine/inventory", "engine/overlay", "engine/budget", "api/...", "provider"}, also: slices.Concat(kubernetesClient, logging, []string{"k8s.io/apiextensions-apiserver"})},
	{packages: "cluster/clustertest", ours: []string{"api/...", "engine", "cluster", "provider/...", "report/..."}, also: slices.Concat(kubernetesClient, logging, prometheus)},
	{packages: "report/...", ours: []string{"report/...", "engine", "engine/...", "cluster", "api/...", "provider"}, also: slices.Concat(kubernetesClient, logging, prometheus)},
	{packages: "controller/...", ours: []string{"controller", "engine", "engine/...", "cluster", "cluster/lane", "provider", "api/...", "report/..."}, also: slices.Concat(kubernetesClient, logging, prometheus)},

	{packages: "trace", ours: []string{"engine/kube"}},
	{packages: "simulator", ours: []string{"engine", "engine/...", "scenario", "trace", "provider", "provider/simulated", "provider/catalog", "provider/offer", "api/..."}, also: []string{"github.com/robfig/cron/v3"}},
	{packages: "explore", ours: []string{"api/...", "engine", "engine/kube", "engine/lifecycle", "scenario/...", "provider/...", "cluster", "controller/...", "report/...", "simulator", "playground", "engine/device", "deviceselector"}, also: slices.Concat(kubernetesClient, logging, prometheus, []string{"k8s.io/dynamic-resource-allocation"})},
	{packages: "doctor", ours: []string{"provider", "engine", "engine/kube", "engine/provisioning", "engine/explain", "api/..."}, also: []string{"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"}},
	{packages: "dashboard", ours: []string{"engine"}, also: []string{"k8s.io/utils/clock", "github.com/a-h/templ"}},
	{packages: "serving", also: []string{"golang.org/x/time/rate"}},
	{packages: "journal", ours: []string{"engine", "engine/inventory", "engine/kube", "api/..."}, also: []string{"k8s.io/utils/clock"}},
	{packages: "uninstall", ours: []string{"provider", "engine", "engine/kube", "api/..."}},
	{packages: "unrendered", alone: true},
	{packages: "deviceselector", ours: []string{"engine/device"}, also: []string{"k8s.io/dynamic-resource-allocation"}},
	{packages: "convert", ours: []string{"api/...", "unrendered"}, also: []string{"go.yaml.in/yaml/v3"}},
	{packages: "playground", ours: []string{"api/..."}, also: append([]string{"k8s.io/apiextensions-apiserver", "golang.org/x/sys"}, kubernetesClient...)},
	{packages: "playground/playgroundtest", ours: []string{"playground", "api/...", "cluster"}, also: kubernetesClient},
	{packages: "oracle", ours: []string{"engine", "engine/kube", "engine/scheduler", "api/...", "playground"}, also: []string{"k8s.io/utils"}},
	{packages: "endtoend/..."}, // nothing but tests
	{packages: "examples"},
	{packages: "tools/mutate"}, // a module of its own
	{packages: "deploy/release", also: []string{"github.com/google/go-containerregistry", "github.com/sigstore/sigstore", "github.com/in-toto/attestation", "google.golang.org/protobuf",
		"github.com/spdx/tools-golang", "github.com/CycloneDX/cyclonedx-go", "github.com/package-url/packageurl-go", "helm.sh/helm/v3/pkg/chart", "github.com/Masterminds/semver"}}, // a module of its own
	{packages: "deploy/..."},
	{packages: "cli", ours: []string{"api/...", "engine", "engine/...", "scenario/...", "provider/...", "cluster", "cluster/lane", "cluster/term", "controller/...", "report/...", "simulator", "trace", "explore", "convert", "dashboard", "deviceselector", "journal", "doctor", "serving", "uninstall", "playground", "examples", "deploy/..."},
		also: slices.Concat(kubernetesClient, logging, prometheus, []string{"github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/term", "k8s.io/apiextensions-apiserver", "k8s.io/apiserver/pkg/authentication", "k8s.io/kube-scheduler/config/v1"})},

	// A module of its own: it imports nothing of ours, and what Kubernetes needs is its own affair.
	{packages: "controlplane/...", also: []string{"*"}},
}

// mostLines is how many lines the files of one package of the engine have together, without tests and packages below: more than that
// nobody reads. packing is one algorithm, and larger.
const mostLines = 5000

// longPackages may have more.
var longPackages = []string{"engine/packing"}

// testOnly lists packages that hold tests for others to run. They may import "testing", and only test files may import them.
var testOnly = []string{"cluster/clustertest", "engine/enginetest", "playground/playgroundtest", "provider/aws/awstest", "provider/azure/azuretest", "provider/providertest", "scenario/scenariotest"}

// bannedNames say nothing about what they name. bannedEndings say no more at the end of a type's name.
var (
	bannedNames   = []string{"util", "utils", "common", "helper", "helpers", "base", "core", "misc", "manager", "data", "types", "state", "service", "impl"}
	bannedEndings = []string{"util", "utils", "helper", "helpers", "misc", "manager", "service", "impl"}
)

// placesOfOneMachine would mean nothing to a reader elsewhere: folders of the machine that a text was written on, and the
// hosts that one developer's tools fetch packages from. They are cut in two here so that this file passes its own test.
var placesOfOneMachine = []string{
	"/wo" + "rk/", "/ro" + "ot/", "/fa" + "rm/", "/ho" + "me/",
	"proxy.go" + "lang.org", "sum.go" + "lang.org", "registry.np" + "mjs.org", "py" + "pi.org",
}

func TestArchitecture(t *testing.T) {
	t.Parallel()
	tree, err := readTree(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range tree.violations(importRules) {
		t.Error(v)
	}
}

func TestAPackageOfTheEngineThatIsTooLongIsFound(t *testing.T) {
	t.Parallel()
	const header = "// Package p is long.\npackage p\n"
	for folder, bounded := range map[string]bool{"engine/kube": true, "engine/packing": false, "cli": false} {
		for _, lines := range []int{mostLines, mostLines + 1} {
			tree, byFolder := &sourceTree{files: token.NewFileSet()}, map[string]*sourcePackage{}
			for name, text := range map[string]string{"a.go": header + strings.Repeat("\n", lines-12), "b.go": "package p\n" + strings.Repeat("\n", 9), "a_test.go": header} {
				if err := tree.addFile(byFolder, folder+"/"+name, []byte(text)); err != nil {
					t.Fatal(err)
				}
			}
			if found := tree.violations(importRules); (len(found) > 0) != (bounded && lines > mostLines) {
				t.Errorf("%s with %d lines: %q", folder, lines, found)
			}
		}
	}
}

// The checker is worth nothing if it finds nothing: testdata/architecture is a small tree that breaks every rule, and
// testdata/architecture.want lists what has to be found in it, no more and no less.
func TestArchitectureCheckerFindsEveryKindOfViolation(t *testing.T) {
	t.Parallel()
	tree, err := readTree("testdata/architecture")
	if err != nil {
		t.Fatal(err)
	}
	got := tree.violations(importRules)
	content, err := os.ReadFile("testdata/architecture.want")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(string(content)), "\n")
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("not found: %s", w)
		}
	}
	for _, g := range got {
		if !slices.Contains(want, g) {
			t.Errorf("found without being there: %s", g)
		}
	}
}
