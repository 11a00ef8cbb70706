package aws_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/aws"
	"tenon.sh/provider/aws/awstest"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(awstest.Run(m))
}

// world is an account with a cluster, a network and a role, and a provider for it.
type world struct {
	testing.TB
	account  *awstest.Account
	clock    *clocktesting.FakeClock
	client   client.Client
	config   aws.Config
	provider *aws.Provider
	// zones has the subnet of each zone. group is the security group of the nodes.
	zones map[string]string
	group string
}

func newWorld(t testing.TB, change func(*aws.Config), objects ...client.Object) *world {
	t.Helper()
	w := &world{TB: t, account: awstest.New(t), clock: clocktesting.NewFakeClock(time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)), zones: map[string]string{}}
	w.account.NewCluster("")
	w.account.NewRole("nodes")
	network := w.account.NewNetwork()
	tags := map[string]string{"discovery": awstest.Cluster}
	for i, zone := range []string{"us-west-2a", "us-west-2b", "us-west-2c"} {
		w.zones[zone] = w.account.NewSubnet(network, zone, fmt.Sprintf("10.0.%d.0/24", i), tags)
	}
	w.group = w.account.NewSecurityGroup(network, "nodes", tags)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{awsv1.AddToScheme, v1.AddToScheme, corev1.AddToScheme} {
		w.must(add(scheme))
	}
	w.client = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&awsv1.EC2NodeClass{}, &v1.NodeClaim{}).WithObjects(objects...).Build()
	sdk := w.account.Config()
	config := aws.Config{ClusterName: awstest.Cluster, EKSControlPlane: true, Client: w.client, Clock: w.clock, SDK: &sdk}
	if change != nil {
		change(&config)
	}
	w.config = config
	w.restart()
	return w
}

// restart creates another provider without memory.
func (w *world) restart() {
	w.Helper()
	p, err := aws.New(w.Context(), w.config)
	w.must(err)
	w.provider = p
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// class stores a class with all fields set, after change.
func (w *world) class(name string, change func(*awsv1.EC2NodeClass)) *awsv1.EC2NodeClass {
	w.Helper()
	c := &awsv1.EC2NodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid"), Generation: 1},
		Spec: awsv1.EC2NodeClassSpec{
			Role:                       "nodes",
			AMISelectorTerms:           []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}},
			SubnetSelectorTerms:        []awsv1.SubnetSelectorTerm{{Tags: awsv1.Tags{"discovery": "demo"}}},
			SecurityGroupSelectorTerms: []awsv1.SecurityGroupSelectorTerm{{Tags: awsv1.Tags{"discovery": "demo"}}},
		},
	}
	if change != nil {
		change(c)
	}
	w.must(w.client.Create(w.Context(), c))
	return c
}

// seen returns the class in the form for the provider.
func seen(c *awsv1.EC2NodeClass) provider.Class {
	return provider.Class{Ref: v1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: c.Name}, Object: c}
}

// resolve resolves the class.
func (w *world) resolve(c *awsv1.EC2NodeClass) (problem string) {
	w.Helper()
	problem, err := w.provider.Resolve(w.Context(), seen(c))
	w.must(err)
	return problem
}

// resolved returns a new class that is ready.
func (w *world) resolved(name string, change func(*awsv1.EC2NodeClass)) *awsv1.EC2NodeClass {
	w.Helper()
	c := w.class(name, change)
	if problem := w.resolve(c); problem != "" {
		w.Fatal(problem)
	}
	return c
}

func (w *world) catalog(c *awsv1.EC2NodeClass) []engine.InstanceType {
	w.Helper()
	types, err := w.provider.Catalog(w.Context(), seen(c))
	w.must(err)
	return types
}

// typeOf finds a type in a catalog. It returns nil if there is none.
func typeOf(types []engine.InstanceType, name string) *engine.InstanceType {
	for i := range types {
		if types[i].Name == name {
			return &types[i]
		}
	}
	return nil
}

func nameOf(name string) client.ObjectKey { return client.ObjectKey{Name: name} }
