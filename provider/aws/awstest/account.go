package awstest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
)

// Region is the region of every account.
const Region = "us-west-2"

// Cluster is the name of the cluster that NewCluster makes.
const Cluster = "demo"

// Account is an account of AWS. It holds the objects that the test makes, and the network that every account has.
type Account struct {
	ID  string
	URL string // of the front

	t       testing.TB
	moto    *moto
	closing chan struct{} // closed when the test ends

	mu     sync.Mutex // guards the fields below
	calls  []Call
	faults map[string][]*Fault
	// The front's answers.
	images       []Image
	reservations []Reservation
	groups       []PlacementGroup
	prices       map[string]float64
	spot         map[[2]string]float64 // by type and zone; nil means the prices of the built-in catalog
	shifted      map[string]time.Time  // by the ID of a zone
	ailments     []Ailment
	fleets       fleets
	lag          int       // number of calls that do not show new machines
	startedAt    time.Time // the machines' launch time; zero means moto's
	buckets      *buckets  // nil: no limits
	impatient    bool      // queues return messages again immediately
	services     string    // the IPv6 range of the cluster's Services; "" leaves moto's answer as it is

	fleeting sync.Mutex // held while a fleet is made
}

// New makes an account and its front, which exist until the test ends.
func New(t testing.TB) *Account {
	t.Helper()
	moto, number := start(t)
	return open(t, moto, fmt.Sprintf("%012d", 100000000000+number))
}

func open(t testing.TB, moto *moto, id string) *Account {
	a := &Account{ID: id, t: t, moto: moto, closing: make(chan struct{}), faults: map[string][]*Fault{}}
	front := httptest.NewServer(http.HandlerFunc(a.serve))
	t.Cleanup(func() {
		close(a.closing)
		front.Close()
	})
	a.URL = front.URL
	return a
}

// Config returns a configuration of the SDK for the account. The SDK tries three times, its default, but waits at most a millisecond in
// between.
func (a *Account) Config() aws.Config {
	return aws.Config{
		Region:       Region,
		BaseEndpoint: aws.String(a.URL),
		Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
		Retryer: func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) { o.MaxBackoff = time.Millisecond })
		},
	}
}

// Environment returns the environment variables that connect another process's SDK to the account.
func (a *Account) Environment() []string {
	return []string{"AWS_ENDPOINT_URL=" + a.URL, "AWS_REGION=" + Region, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_EC2_METADATA_DISABLED=true"}
}

// record notes a call, and returns its fault if it is to fail.
func (a *Account) record(call Call) *Fault {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = append(a.calls, call)
	for i, f := range a.faults[call.Action] {
		if f.After > 0 {
			f.After--
			continue
		}
		if f.Times == 1 {
			a.faults[call.Action] = slices.Delete(a.faults[call.Action], i, i+1)
		}
		f.Times--
		return f
	}
	return nil
}

// Fail makes calls of an action fail from now on.
func (a *Account) Fail(action string, fault Fault) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.faults[action] = append(a.faults[action], &fault)
}

// Heal removes all faults of Fail.
func (a *Account) Heal() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.faults)
}

// Calls returns the calls of an action so far; of all actions if it is "".
func (a *Account) Calls(action string) (out []Call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.calls {
		if action == "" || c.Action == action {
			out = append(out, c)
		}
	}
	return out
}

func (a *Account) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

// NewCluster makes a cluster of EKS with a version; "" means Kubernetes.
func (a *Account) NewCluster(version string) {
	a.t.Helper()
	if version == "" {
		version = Kubernetes
	}
	_, err := eks.NewFromConfig(a.Config()).CreateCluster(a.t.Context(), &eks.CreateClusterInput{
		Name: aws.String(Cluster), Version: aws.String(version), RoleArn: aws.String("arn:aws:iam::" + a.ID + ":role/cluster"),
		ResourcesVpcConfig: &ekstypes.VpcConfigRequest{SubnetIds: []string{}},
	})
	a.must(err)
}

// Names of the objects that the method Furnish makes. Karpenter's guides use the same names.
const (
	NodeRole     = "KarpenterNodeRole-" + Cluster
	Queue        = Cluster
	DiscoveryTag = "karpenter.sh/discovery" // its value is the name of the cluster
)

// Furnish makes the objects that an installation of an autoscaler needs: a cluster, a role of nodes, subnets in three zones and a security
// group, both with the tag, and a queue. It returns the queue's URL.
func (a *Account) Furnish() (queue string) {
	a.t.Helper()
	a.NewCluster("")
	a.NewRole(NodeRole)
	network, tags := a.NewNetwork(), map[string]string{DiscoveryTag: Cluster}
	for i, zone := range []string{"a", "b", "c"} {
		a.NewSubnet(network, Region+zone, fmt.Sprintf("10.0.%d.0/24", i), tags)
	}
	a.NewSecurityGroup(network, "nodes", tags)
	return a.NewQueue(Queue)
}

// SetIPv6 makes the account's EKS report a cluster whose Services have IPv6 addresses from the range `services`. Moto has only IPv4 clusters.
func (a *Account) SetIPv6(services string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.services = services
}

// withServices adds the IPv6 range of the Services from SetIPv6, if there is one, to moto's description of a cluster.
func (a *Account) withServices(body []byte) []byte {
	a.mu.Lock()
	services := a.services
	a.mu.Unlock()
	var out struct {
		Cluster map[string]any `json:"cluster"`
	}
	if services == "" || json.Unmarshal(body, &out) != nil {
		return body
	}
	out.Cluster["kubernetesNetworkConfig"] = map[string]any{"ipFamily": "ipv6", "serviceIpv6Cidr": services}
	changed, _ := json.Marshal(out)
	return changed
}

// NewRole makes a role.
func (a *Account) NewRole(name string) {
	a.t.Helper()
	_, err := iam.NewFromConfig(a.Config()).CreateRole(a.t.Context(), &iam.CreateRoleInput{RoleName: aws.String(name), AssumeRolePolicyDocument: aws.String("{}")})
	a.must(err)
}

// NewNetwork makes a network and returns its ID.
func (a *Account) NewNetwork() string {
	a.t.Helper()
	out, err := a.ec2().CreateVpc(a.t.Context(), &ec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16")})
	a.must(err)
	return *out.Vpc.VpcId
}

// NewSubnet makes a subnet and returns its ID. The range of addresses decides how many are free: 10.0.1.0/24 has 251.
func (a *Account) NewSubnet(network, zone, addresses string, tags map[string]string) string {
	a.t.Helper()
	out, err := a.ec2().CreateSubnet(a.t.Context(), &ec2.CreateSubnetInput{
		VpcId: aws.String(network), AvailabilityZone: aws.String(zone), CidrBlock: aws.String(addresses),
		TagSpecifications: tagged(ec2types.ResourceTypeSubnet, tags),
	})
	a.must(err)
	return *out.Subnet.SubnetId
}

// NewSecurityGroup makes a security group and returns its ID.
func (a *Account) NewSecurityGroup(network, name string, tags map[string]string) string {
	a.t.Helper()
	out, err := a.ec2().CreateSecurityGroup(a.t.Context(), &ec2.CreateSecurityGroupInput{
		VpcId: aws.String(network), GroupName: aws.String(name), Description: aws.String(name),
		TagSpecifications: tagged(ec2types.ResourceTypeSecurityGroup, tags),
	})
	a.must(err)
	return *out.GroupId
}

func (a *Account) ec2() *ec2.Client { return ec2.NewFromConfig(a.Config()) }

func tagged(kind ec2types.ResourceType, tags map[string]string) []ec2types.TagSpecification {
	if len(tags) == 0 {
		return nil
	}
	s := ec2types.TagSpecification{ResourceType: kind}
	for key, value := range tags {
		s.Tags = append(s.Tags, ec2types.Tag{Key: aws.String(key), Value: aws.String(value)})
	}
	return []ec2types.TagSpecification{s}
}

// AddImages adds images to the account. Moto's own images are hidden from then on.
func (a *Account) AddImages(images ...Image) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.images = append(a.images, images...)
}

// SetImages replaces all images of the account.
func (a *Account) SetImages(images ...Image) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.images = images
}

// SetReservations replaces all capacity reservations of the account.
func (a *Account) SetReservations(reservations ...Reservation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reservations = reservations
}

// SetPlacementGroups replaces all placement groups of the account.
func (a *Account) SetPlacementGroups(groups ...PlacementGroup) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.groups = groups
}

// SetPrices replaces the on-demand prices, in USD per hour by type. The initial prices are those of the built-in catalog.
func (a *Account) SetPrices(prices map[string]float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.prices = prices
}

// SetSpotPrices replaces the spot prices, by type and zone. The initial prices are those of the built-in catalog.
func (a *Account) SetSpotPrices(prices map[[2]string]float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spot = prices
}

// SetZonalShifts replaces the zonal shifts of the cluster: the end of each, by the ID of the avoided zone.
func (a *Account) SetZonalShifts(until map[string]time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shifted = until
}
