// Package azuretest gives tests and demos an Azure to talk to: a server of our own on this machine that speaks the protocol of
// Azure Resource Manager (ARM), and keeps what it is told: machines, network interfaces, disks, extensions. It counts all calls,
// fails those that a test wants to fail, and refuses those that it does not know. Every test has a subscription of its own,
// whose time is a clock that the test hands in.
//
//	func TestX(t *testing.T) {
//		subscription := azuretest.New(t, clock)
//		client, err := armcompute.NewVirtualMachinesClient(subscription.ID, subscription.Credential(), subscription.Options())
//
// What it says was written from Azure's documentation and from what clients of it expect; it has not been compared with Azure.
package azuretest

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"k8s.io/utils/clock"
)

// What every subscription has.
const (
	Location = "eastus"
	Group    = "nodes" // a resource group
	Tenant   = "00000000-0000-0000-0000-00000000000a"
)

// Subscription is a subscription of Azure with a resource group, and nothing else in it that the test has not put there.
type Subscription struct {
	ID  string
	URL string

	t       testing.TB
	clock   clock.PassiveClock
	server  *httptest.Server
	closing chan struct{} // closed when the test ends

	mu        sync.Mutex // guards what follows
	calls     []Call
	faults    map[string][]*Fault
	number    int // of what was made last
	groups    map[string]bool
	resources map[string]*resource // by ID in lower case
	gone      []*resource          // what was deleted, for lists that lag behind
	running   []*operation
	ended     map[string]*operation
	reserved  map[string]reservation // network interfaces by ID in lower case
	sizes     []Size
	quotas    map[string]int
	images    map[string]Image // by ID in lower case
	capacity  []*capacity
	timing    Timing
	buckets   *buckets // nil: no limits
	noAKS     bool
	ofAKS     map[string]string   // keys of virtual machines by the IDs of AKS's machines, in lower case
	grants    map[string][]string // actions by scope in lower case; "*" where nothing is said
}

// Timing is how long things take. With the zero value nothing takes time, and lists are up to date.
type Timing struct {
	Create, Delete time.Duration // of machines
	// Lists is how far lists of a resource group or subscription lag behind, Graph how far the resource graph does.
	Lists, Graph time.Duration
}

// New makes a subscription, and a server for it for the time of the test.
func New(t testing.TB, clock clock.PassiveClock) *Subscription {
	t.Helper()
	s := &Subscription{
		ID: "00000000-0000-0000-0000-000000000001", t: t, clock: clock, closing: make(chan struct{}), faults: map[string][]*Fault{},
		groups: map[string]bool{Group: true}, resources: map[string]*resource{}, ended: map[string]*operation{}, reserved: map[string]reservation{},
		sizes: sizes(), quotas: map[string]int{}, images: map[string]Image{}, grants: map[string][]string{}, ofAKS: map[string]string{},
	}
	s.server = httptest.NewTLSServer(http.HandlerFunc(s.serve))
	s.URL = s.server.URL
	s.server.Client().Transport.(*http.Transport).MaxIdleConnsPerHost = 64 // a handshake for each call is not what is tested
	t.Cleanup(func() {
		close(s.closing)
		s.server.Close()
	})
	return s
}

// Options connect the SDK to the server. It tries as often as it does by default, but does not wait long in between.
func (s *Subscription) Options() *arm.ClientOptions {
	return &arm.ClientOptions{
		DisableRPRegistration: true,
		ClientOptions: policy.ClientOptions{
			Cloud: cloud.Configuration{
				ActiveDirectoryAuthorityHost: s.URL,
				Services:                     map[cloud.ServiceName]cloud.ServiceConfiguration{cloud.ResourceManager: {Endpoint: s.URL, Audience: s.URL}},
			},
			Transport: s.Client(),
			Retry:     policy.RetryOptions{RetryDelay: time.Millisecond, MaxRetryDelay: 10 * time.Millisecond},
		},
	}
}

// Client trusts the server's certificate.
func (s *Subscription) Client() *http.Client { return s.server.Client() }

// Credential is one that the server accepts.
func (s *Subscription) Credential() azcore.TokenCredential { return &fake.TokenCredential{} }

// Environment connects another process to the subscription: the names are those that Karpenter's users set, and those of the SDK.
// Its credential is a client secret, which the server gives a token for.
func (s *Subscription) Environment() []string {
	s.t.Helper()
	folder := s.t.TempDir()
	certificate := filepath.Join(folder, "certificate.pem")
	s.must(os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.server.Certificate().Raw}), 0o600))
	environment := filepath.Join(folder, "environment.json")
	text, err := json.Marshal(map[string]string{"resourceManagerEndpoint": s.URL, "activeDirectoryEndpoint": s.URL, "tokenAudience": s.URL})
	s.must(err)
	s.must(os.WriteFile(environment, text, 0o600))
	return []string{
		"SSL_CERT_FILE=" + certificate, "AZURE_ENVIRONMENT_FILEPATH=" + environment, "AZURE_TENANT_ID=" + Tenant, "AZURE_CLIENT_ID=test",
		"AZURE_CLIENT_SECRET=test", "AZURE_SUBSCRIPTION_ID=" + s.ID, "AZURE_NODE_RESOURCE_GROUP=" + Group, "LOCATION=" + Location,
	}
}

func (s *Subscription) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// Fail has calls of an operation fail from now on.
func (s *Subscription) Fail(operation string, fault Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[operation] = append(s.faults[operation], &fault)
}

// Heal takes back everything that Fail and Limit said.
func (s *Subscription) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.faults)
	s.capacity = nil
}

// Calls are the calls of an operation so far, those that were refused with them; of all operations if it is "".
func (s *Subscription) Calls(operation string) (out []Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if operation == "" || c.Operation == operation {
			out = append(out, c)
		}
	}
	return out
}

// CallsAbout are the calls that named a resource or what it is made of: all that its life took.
func (s *Subscription) CallsAbout(name string) (out []Call) {
	for _, c := range s.Calls("") {
		if strings.Contains(strings.ToLower(c.Path)+"/", "/"+strings.ToLower(name)+"/") || strings.EqualFold(c.about, name) {
			out = append(out, c)
		}
	}
	return out
}

// Take has things take time from now on.
func (s *Subscription) Take(timing Timing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timing = timing
}

// AddGroup makes another resource group.
func (s *Subscription) AddGroup(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups[strings.ToLower(name)] = true
}

// ForbidAKS has the test fail with the first call to AKS, which the server does not know anyway.
func (s *Subscription) ForbidAKS() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noAKS = true
}
