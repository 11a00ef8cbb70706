// Package azuretest gives tests and demos a simulated Azure: a server on this machine that speaks the protocol of Azure Resource Manager
// (ARM) and stores machines, network interfaces, disks and extensions. It counts all calls, makes calls fail if a test asks for it, and
// refuses unknown calls. Every test has its own subscription, with the test's clock.
//
//	func TestX(t *testing.T) {
//		subscription := azuretest.New(t, clock)
//		client, err := armcompute.NewVirtualMachinesClient(subscription.ID, subscription.Credential(), subscription.Options())
//
// Its answers follow Azure's documentation and the expectations of Azure's clients; they have not been compared with Azure.
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

// The properties of every subscription.
const (
	Location = "eastus"
	Group    = "nodes" // a resource group
	Tenant   = "00000000-0000-0000-0000-00000000000a"
)

// Subscription is a subscription of Azure. It holds a resource group and the objects that the test makes.
type Subscription struct {
	ID  string
	URL string

	t       testing.TB
	clock   clock.PassiveClock
	server  *httptest.Server
	closing chan struct{} // closed when the test ends

	mu        sync.Mutex // guards the fields below
	calls     []Call
	faults    map[string][]*Fault
	number    int // of the last made object
	groups    map[string]bool
	resources map[string]*resource // by ID in lower case
	gone      []*resource          // deleted resources, for lists that lag behind
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
	grants    map[string][]string // actions by scope in lower case; "*" for a scope that is missing
}

// Timing holds the durations of operations. With the zero value, operations take no time, and lists are up to date.
type Timing struct {
	Create, Delete time.Duration // of machines
	// Lists is the lag of lists of a resource group or subscription, Graph that of the resource graph.
	Lists, Graph time.Duration
}

// New makes a subscription and its server, which exist until the test ends.
func New(t testing.TB, clock clock.PassiveClock) *Subscription {
	t.Helper()
	s := &Subscription{
		ID: "00000000-0000-0000-0000-000000000001", t: t, clock: clock, closing: make(chan struct{}), faults: map[string][]*Fault{},
		groups: map[string]bool{Group: true}, resources: map[string]*resource{}, ended: map[string]*operation{}, reserved: map[string]reservation{},
		sizes: sizes(), quotas: map[string]int{}, images: map[string]Image{}, grants: map[string][]string{}, ofAKS: map[string]string{},
	}
	s.server = httptest.NewTLSServer(http.HandlerFunc(s.serve))
	s.URL = s.server.URL
	s.server.Client().Transport.(*http.Transport).MaxIdleConnsPerHost = 64 // so that a test does not make a TLS handshake for each call
	t.Cleanup(func() {
		close(s.closing)
		s.server.Close()
	})
	return s
}

// Options returns options that connect the SDK to the server. The SDK tries as often as by default, but waits at most 10 ms in between.
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

// Client returns a client that trusts the server's certificate.
func (s *Subscription) Client() *http.Client { return s.server.Client() }

// Credential returns a credential that the server accepts.
func (s *Subscription) Credential() azcore.TokenCredential { return &fake.TokenCredential{} }

// Environment returns the environment variables that connect another process to the subscription: variables of Karpenter's users and of the
// SDK. The credential is a client secret, for which the server issues a token.
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

// Fail makes calls of an operation fail from now on.
func (s *Subscription) Fail(operation string, fault Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[operation] = append(s.faults[operation], &fault)
}

// Heal undoes Fail and Limit.
func (s *Subscription) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.faults)
	s.capacity = nil
}

// Calls returns the calls of an operation so far, including refused ones; of all operations if it is "".
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

// CallsAbout returns the calls that named a resource, its parts or its operations.
func (s *Subscription) CallsAbout(name string) (out []Call) {
	for _, c := range s.Calls("") {
		if strings.Contains(strings.ToLower(c.Path)+"/", "/"+strings.ToLower(name)+"/") || strings.EqualFold(c.about, name) {
			out = append(out, c)
		}
	}
	return out
}

// Take sets the durations of operations from now on.
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

// ForbidAKS makes the test fail at the first call to AKS.
func (s *Subscription) ForbidAKS() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noAKS = true
}
