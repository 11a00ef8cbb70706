package report

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/prometheus/client_golang/prometheus"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"tenon.sh/engine"
	"tenon.sh/provider/aws"
	"tenon.sh/provider/azure"
	"tenon.sh/provider/azure/cloud"
)

var rewrite = flag.Bool("rewrite", false, "write docs/reference/metrics.md anew")

// metricsPage is the reference page of metrics, from the root of the module.
const metricsPage = "docs/reference/metrics.md"

// The page is generated from the declared metrics, so that dashboards and alerts can be compared with it.
func TestTheReferenceOfMetricsIsUpToDate(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", filepath.FromSlash(metricsPage))
	want := metricsText(declared(t), ofAWS(t), ofAzure(t))
	if *rewrite {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != want {
		t.Errorf("%s is not what the code declares: run make generate", metricsPage)
	}
}

// A declaration is one metric as the code declares it.
type declaration struct{ name, kind, help, labels string }

// declarations collects the registered metrics.
type declarations struct {
	t    *testing.T
	list map[string]declaration
}

// Register is part of prometheus.Registerer.
func (d *declarations) Register(c prometheus.Collector) error {
	kind := "gauge"
	switch c.(type) {
	case *prometheus.CounterVec:
		kind = "counter"
	case *prometheus.HistogramVec:
		kind = "histogram"
	case *prometheus.SummaryVec:
		kind = "summary"
	}
	all := make(chan *prometheus.Desc, 1000)
	c.Describe(all)
	close(all)
	for desc := range all {
		d.add(desc, kind)
	}
	return nil
}

// MustRegister is part of prometheus.Registerer.
func (d *declarations) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		_ = d.Register(c)
	}
}

// Unregister is part of prometheus.Registerer.
func (d *declarations) Unregister(prometheus.Collector) bool { return false }

var described = regexp.MustCompile(`fqName: "([^"]*)", help: "((?:[^"\\]|\\.)*)", .*variableLabels: \{([^}]*)\}`)

func (d *declarations) add(desc *prometheus.Desc, kind string) {
	match := described.FindStringSubmatch(desc.String())
	if match == nil {
		d.t.Fatalf("%s is not written as expected", desc)
	}
	if _, twice := d.list[match[1]]; twice {
		d.t.Errorf("%s is declared twice", match[1])
	}
	d.list[match[1]] = declaration{name: match[1], kind: kind, help: match[2], labels: match[3]}
}

// ofAWS lists the metrics of the AWS provider.
func ofAWS(t *testing.T) []declaration {
	d := &declarations{t: t, list: map[string]declaration{}}
	NewStatusObserver(d, nil, clock.RealClock{}, "ec2nodeclass")
	_, err := aws.New(t.Context(), aws.Config{
		ClusterName: "any", EKSControlPlane: true, Client: fake.NewClientBuilder().Build(), SDK: &awssdk.Config{Region: "us-east-1"}, Registry: d,
	})
	if err != nil {
		t.Fatal(err)
	}
	return d.sorted()
}

// version is the version of an API server.
type version struct{}

func (version) ServerVersion() (*apiversion.Info, error) { return &apiversion.Info{}, nil }

// ofAzure lists the metrics of the Azure provider.
func ofAzure(t *testing.T) []declaration {
	d := &declarations{t: t, list: map[string]declaration{}}
	NewStatusObserver(d, nil, clock.RealClock{}, "aksnodeclass")
	connection, err := cloud.New(cloud.Config{Subscription: "any", Location: "eastus", Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = azure.New(azure.Config{
		ClusterName: "any", ResourceGroup: "any", SubnetID: "/subscriptions/any/resourceGroups/any/providers/Microsoft.Network/virtualNetworks/any/subnets/any",
		Mode: azure.ModeUserData, Cloud: connection, Client: fake.NewClientBuilder().Build(), Version: version{}, Registry: d,
	})
	if err != nil {
		t.Fatal(err)
	}
	return d.sorted()
}

func (d *declarations) sorted() (out []declaration) {
	for _, name := range slices.Sorted(maps.Keys(d.list)) {
		out = append(out, d.list[name])
	}
	return out
}

// declared lists the metrics of this package, without the labels of nodes, which depend on the cloud.
func declared(t *testing.T) []declaration {
	d := &declarations{t: t, list: map[string]declaration{}}
	NewMetrics(d, "")
	NewPodObserver(d, clock.RealClock{})
	NewStatusObserver(d, nil, clock.RealClock{}, "node", "nodeclaim", "nodepool", "kwoknodeclass")
	c := NewStateCollector(func(context.Context) (*engine.Snapshot, error) { return nil, nil })
	for _, name := range slices.Sorted(maps.Keys(c.families)) {
		d.add(c.families[name], "gauge")
	}
	return d.sorted()
}

func metricsText(all, aws, azure []declaration) string {
	var out strings.Builder
	out.WriteString(`# Metrics

Made from the code by ` + "`make generate`" + `; do not edit. The controller serves these metrics at ` + "`/metrics`" + ` of the metrics port. Names and
labels are Karpenter's, except for names with ` + "`tenon_`" + `. Metrics of nodes also have the labels of the cloud's instance types, without
their domain and with ` + "`_`" + ` for ` + "`-`" + `. Only the leader has the metrics of the cluster's state. The page leaves out the
metrics of the Go runtime, the process and controller-runtime.

`)
	writeTable(&out, all)
	out.WriteString(`
## AWS

The AWS provider adds these. An offering has one series of each metric, even if several node classes can use the offering. So the number of series is
at most the number of instance types, times the zones of all classes, times three capacity types.

`)
	writeTable(&out, aws)
	out.WriteString(`
## Azure

The Azure provider adds these.

`)
	writeTable(&out, azure)
	return out.String()
}

func writeTable(out *strings.Builder, list []declaration) {
	out.WriteString("| Metric | Kind | Labels | |\n|---|---|---|---|\n")
	for _, d := range list {
		fmt.Fprintf(out, "| `%s` | %s | %s | %s |\n", d.name, d.kind, strings.ReplaceAll(d.labels, ",", ", "), d.help)
	}
}
