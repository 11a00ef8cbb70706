package cloud_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	azfake "github.com/Azure/azure-sdk-for-go/sdk/azcore/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7/fake"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"tenon.sh/provider/azure/azuretest"
	"tenon.sh/provider/azure/cloud"
)

const group, nic = azuretest.Group, "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/nodes/providers/Microsoft.Network/networkInterfaces/a"

func machine() armcompute.VirtualMachine {
	return armcompute.VirtualMachine{Location: new(azuretest.Location), Properties: &armcompute.VirtualMachineProperties{
		HardwareProfile: &armcompute.HardwareProfile{VMSize: new(armcompute.VirtualMachineSizeTypes("Standard_D2s_v5"))},
		StorageProfile:  &armcompute.StorageProfile{ImageReference: &armcompute.ImageReference{Publisher: new("p"), Offer: new("o"), SKU: new("s"), Version: new("latest")}},
		NetworkProfile:  &armcompute.NetworkProfile{NetworkInterfaces: []*armcompute.NetworkInterfaceReference{{ID: new(nic)}}},
	}}
}

func connect(t *testing.T, options arm.ClientOptions, clock clock.Clock) *cloud.Cloud {
	t.Helper()
	c, err := cloud.New(cloud.Config{Subscription: "00000000-0000-0000-0000-000000000001", Location: azuretest.Location, Credential: &azfake.TokenCredential{}, Options: options, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ofOurs connects to azuretest's server, which is ready for a machine.
func ofOurs(t *testing.T, fault *azuretest.Fault) *cloud.Cloud {
	t.Helper()
	now := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	s := azuretest.New(t, now)
	s.Put(group, "Microsoft.Network/networkInterfaces", "a", map[string]any{})
	s.AddImage(azuretest.Image{ID: "p:o:s"})
	if fault != nil {
		s.Fail("VirtualMachines_CreateOrUpdate", *fault)
	}
	return connect(t, *s.Options(), now)
}

// ofTheSDK connects to the fake server that Microsoft generates with the SDK. It returns the given answers.
func ofTheSDK(t *testing.T, create func() (azfake.PollerResponder[armcompute.VirtualMachinesClientCreateOrUpdateResponse], azfake.ErrorResponder)) *cloud.Cloud {
	t.Helper()
	vm := armcompute.VirtualMachine{Name: new("a"), Properties: &armcompute.VirtualMachineProperties{ProvisioningState: new("Succeeded"),
		InstanceView: &armcompute.VirtualMachineInstanceView{Statuses: []*armcompute.InstanceViewStatus{{Code: new("ProvisioningState/succeeded")}, {Code: new("PowerState/running")}}}}}
	servers := fake.ServerFactory{
		VirtualMachinesServer: fake.VirtualMachinesServer{
			BeginCreateOrUpdate: func(context.Context, string, string, armcompute.VirtualMachine, *armcompute.VirtualMachinesClientBeginCreateOrUpdateOptions) (azfake.PollerResponder[armcompute.VirtualMachinesClientCreateOrUpdateResponse], azfake.ErrorResponder) {
				return create()
			},
			Get: func(_ context.Context, _, name string, _ *armcompute.VirtualMachinesClientGetOptions) (out azfake.Responder[armcompute.VirtualMachinesClientGetResponse], err azfake.ErrorResponder) {
				if name != "a" {
					err.SetResponseError(http.StatusNotFound, "ResourceNotFound")
					return out, err
				}
				out.SetResponse(http.StatusOK, armcompute.VirtualMachinesClientGetResponse{VirtualMachine: vm}, nil)
				return out, err
			},
			NewListPager: func(string, *armcompute.VirtualMachinesClientListOptions) (out azfake.PagerResponder[armcompute.VirtualMachinesClientListResponse]) {
				out.AddPage(http.StatusOK, armcompute.VirtualMachinesClientListResponse{VirtualMachineListResult: armcompute.VirtualMachineListResult{Value: []*armcompute.VirtualMachine{&vm}}}, nil)
				return out
			},
			BeginDelete: func(context.Context, string, string, *armcompute.VirtualMachinesClientBeginDeleteOptions) (out azfake.PollerResponder[armcompute.VirtualMachinesClientDeleteResponse], _ azfake.ErrorResponder) {
				out.AddNonTerminalResponse(http.StatusAccepted, nil)
				out.SetTerminalResponse(http.StatusOK, armcompute.VirtualMachinesClientDeleteResponse{}, nil)
				return out, azfake.ErrorResponder{}
			},
		},
	}
	now := clocktesting.NewFakeClock(time.Now())
	return connect(t, arm.ClientOptions{ClientOptions: policy.ClientOptions{Transport: fake.NewServerFactoryTransport(&servers)}}, eager{now})
}

// eager is a clock that advances when a goroutine waits for it, because the SDK's fake gives no time to wait.
type eager struct{ *clocktesting.FakeClock }

func (c eager) NewTimer(d time.Duration) clock.Timer {
	timer := c.FakeClock.NewTimer(d)
	if d < cloud.Patience {
		c.Step(d)
	}
	return timer
}

type responder = azfake.PollerResponder[armcompute.VirtualMachinesClientCreateOrUpdateResponse]

// Neither azuretest's server nor the SDK's fake is Azure. But for calls that both support, callers see the same behaviour.
func TestOurServerAndTheSDKsFakeAgree(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, code string
		accepted   bool
		fault      *azuretest.Fault
		create     func() (responder, azfake.ErrorResponder)
	}{
		{name: "a machine comes up", create: func() (out responder, err azfake.ErrorResponder) {
			out.AddNonTerminalResponse(http.StatusCreated, nil)
			out.SetTerminalResponse(http.StatusOK, armcompute.VirtualMachinesClientCreateOrUpdateResponse{}, nil)
			return out, err
		}},
		{name: "it is refused", code: "SkuNotAvailable", fault: &azuretest.Fault{Code: "SkuNotAvailable"}, create: func() (out responder, err azfake.ErrorResponder) {
			err.SetResponseError(http.StatusConflict, "SkuNotAvailable")
			return out, err
		}},
		{name: "it fails later", code: "ZonalAllocationFailed", accepted: true, fault: &azuretest.Fault{Code: "ZonalAllocationFailed", Async: true}, create: func() (out responder, err azfake.ErrorResponder) {
			out.AddNonTerminalResponse(http.StatusCreated, nil)
			out.SetTerminalError(http.StatusConflict, "ZonalAllocationFailed")
			return out, err
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for name, c := range map[string]*cloud.Cloud{"ours": ofOurs(t, test.fault), "the SDK's": ofTheSDK(t, test.create)} {
				operation, err := c.BeginVM(t.Context(), group, "a", machine())
				if err == nil {
					err = operation.Wait(t.Context())
				}
				if cloud.Code(err) != test.code || cloud.Accepted(err) != test.accepted || (err != nil) != (test.code != "") {
					t.Errorf("%s: code %q, accepted %v: %v", name, cloud.Code(err), cloud.Accepted(err), err)
				}
			}
		})
	}
	for name, c := range map[string]*cloud.Cloud{"ours": ofOurs(t, nil), "the SDK's": ofTheSDK(t, func() (out responder, err azfake.ErrorResponder) {
		out.SetTerminalResponse(http.StatusCreated, armcompute.VirtualMachinesClientCreateOrUpdateResponse{VirtualMachine: armcompute.VirtualMachine{Properties: &armcompute.VirtualMachineProperties{ProvisioningState: new("Succeeded")}}}, nil)
		return out, err
	})} {
		o, err := c.BeginVM(t.Context(), group, "a", machine())
		if err == nil {
			err = o.Wait(t.Context())
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		vm, err := c.VM(t.Context(), group, "a")
		if err != nil || *vm.Name != "a" || *vm.Properties.ProvisioningState != "Succeeded" || *vm.Properties.InstanceView.Statuses[1].Code != "PowerState/running" {
			t.Errorf("%s: %+v, %v", name, vm, err)
		}
		if _, err := c.VM(t.Context(), group, "none"); !cloud.NotFound(err) || cloud.Code(err) != "ResourceNotFound" {
			t.Errorf("%s: %v", name, err)
		}
		if list, err := c.VMs(t.Context(), group); err != nil || len(list) != 1 || *list[0].Name != "a" {
			t.Errorf("%s: %v, %v", name, list, err)
		}
		o, err = c.BeginDeleteVM(t.Context(), group, "a")
		if err == nil {
			err = o.Wait(t.Context())
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		fault azuretest.Fault
		want  string
	}{
		{azuretest.Fault{Status: 401, Code: "ExpiredAuthenticationToken"}, "unknown"},
		{azuretest.Fault{Status: 403, Code: "AuthorizationFailed"}, "denied"},
		{azuretest.Fault{Status: 404, Code: "ResourceNotFound"}, "not-found"},
		{azuretest.Fault{Status: 429, Code: "TooManyRequests", RetryAfter: time.Minute}, "throttled passing"},
		{azuretest.Fault{Status: 500, Code: "InternalServerError"}, "passing"},
		{azuretest.Fault{Status: 501, Code: "NotImplemented"}, ""},
		{azuretest.Fault{Status: 400, Code: "InvalidParameter"}, ""},
		{azuretest.Fault{Code: "AllocationFailed", Async: true}, "accepted"},
	} {
		c := ofOurs(t, &test.fault)
		o, err := c.BeginVM(t.Context(), group, "a", machine())
		if err == nil {
			err = o.Wait(t.Context())
		}
		var got []string
		for _, kind := range []struct {
			name string
			is   func(error) bool
		}{{"unknown", cloud.Unknown}, {"denied", cloud.Denied}, {"not-found", cloud.NotFound}, {"throttled", cloud.Throttled}, {"passing", cloud.Passing}, {"accepted", cloud.Accepted}, {"canceled", cloud.Canceled}} {
			if kind.is(err) {
				got = append(got, kind.name)
			}
			if kind.is(nil) {
				t.Errorf("no error is %s", kind.name)
			}
		}
		if strings.Join(got, " ") != test.want || !strings.Contains(err.Error(), "VirtualMachines_CreateOrUpdate a") || !strings.Contains(err.Error(), test.fault.Code) {
			t.Errorf("%+v is %q, want %q: %v", test.fault, got, test.want, err)
		}
	}
}

func TestTheTextOfAnErrorIsTheSameForTheSameTrouble(t *testing.T) {
	t.Parallel()
	c := ofOurs(t, &azuretest.Fault{Code: "AllocationFailed", Message: "none left", Details: []azuretest.Detail{{Code: "Inner", Message: "why"}}, Async: true})
	o, err := c.BeginVM(t.Context(), group, "a", machine())
	if err != nil {
		t.Fatal(err)
	}
	if got := o.Wait(t.Context()).Error(); got != "VirtualMachines_CreateOrUpdate a (after it was accepted): AllocationFailed: none left [Inner: why]" {
		t.Errorf("got %s", got)
	}
}

func TestWhichCloudIsMeant(t *testing.T) {
	file := filepath.Join(t.TempDir(), "environment.json")
	if err := os.WriteFile(file, []byte(`{"resourceManagerEndpoint": "https://arm.example", "activeDirectoryEndpoint": "https://login.example/", "tokenAudience": "https://audience.example"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, file, login, err string }{
		{"", "", "https://login.microsoftonline.com/", ""},
		{"AzureUSGovernment", "", "https://login.microsoftonline.us/", ""},
		{"AzureChinaCloud", "", "https://login.chinacloudapi.cn/", ""},
		{"", file, "https://login.example/", ""},
		{"AzurePublicCloud", file, "", "both"},
		{"Other", "", "", `"Other"`},
		{"", file + "-none", "", "no such file"},
	} {
		t.Setenv("ARM_CLOUD", test.name)
		t.Setenv("AZURE_ENVIRONMENT_FILEPATH", test.file)
		config, err := cloud.Load(clock.RealClock{})
		if (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) || config.Options.Cloud.ActiveDirectoryAuthorityHost != test.login {
			t.Errorf("%+v: %s, %v", test, config.Options.Cloud.ActiveDirectoryAuthorityHost, err)
		}
	}
	if _, err := cloud.New(cloud.Config{}); err == nil || !strings.Contains(err.Error(), "AZURE_SUBSCRIPTION_ID") {
		t.Errorf("got %v", err)
	}
}

// Callers that exceed Azure's limits wait for their turn, and are not refused.
func TestCallsKeepToAzuresLimits(t *testing.T) {
	now := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	s := azuretest.New(t, now)
	s.Enforce()
	c := connect(t, *s.Options(), waiting{now})
	began := now.Now()
	for i := range 300 {
		if err := c.DeleteNIC(t.Context(), group, "none"); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	if took := now.Since(began); s.Refused() > 0 || took < 10*time.Second || took > 13*time.Second {
		t.Errorf("%d calls were refused, it took %s", s.Refused(), took)
	}
}

// waiting is a clock that advances when a goroutine waits for its turn.
type waiting struct{ *clocktesting.FakeClock }

func (w waiting) NewTimer(d time.Duration) clock.Timer {
	timer := w.FakeClock.NewTimer(d)
	if d < cloud.Patience {
		w.Step(d)
	}
	return timer
}

// If a check forbids it, nothing is made or deleted, and the call is not repeated.
func TestNothingIsChangedThatMayNotBe(t *testing.T) {
	now := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	s := azuretest.New(t, now)
	asked := 0
	c, err := cloud.New(cloud.Config{Subscription: s.ID, Location: azuretest.Location, Credential: s.Credential(), Options: *s.Options(), Clock: now, May: func(what string) error {
		asked++
		return errors.New("another process leads: " + what)
	}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.BeginVM(t.Context(), group, "a", machine())
	if err == nil || !strings.Contains(err.Error(), "another process leads") || asked != 1 || len(s.Calls("")) != 0 {
		t.Errorf("%d questions, %d calls: %v", asked, len(s.Calls("")), err)
	}
	pool := "/subscriptions/" + s.ID + "/resourceGroups/nodes/providers/Microsoft.ContainerService/managedClusters/c/agentPools/p"
	_, err = c.BeginDeleteMachines(t.Context(), pool, "m")
	if err == nil || !strings.Contains(err.Error(), "another process leads") || asked != 2 || len(s.Calls("")) != 0 {
		t.Errorf("%d questions, %d calls: %v", asked, len(s.Calls("")), err)
	}
	if _, err := c.VMs(t.Context(), group); err != nil {
		t.Errorf("reading: %v", err)
	}
}

// Conditions of classes are written when their text changes. A text that differs at each attempt would be written without end.
func TestTheSameTroubleHasTheSameText(t *testing.T) {
	refused := func(trace string) error {
		return &azidentity.AuthenticationFailedError{RawResponse: &http.Response{StatusCode: 401, Status: "401 Unauthorized", Request: httptest.NewRequest("POST", "https://login/token", nil), Body: io.NopCloser(strings.NewReader(
			`{"error":"invalid_client","error_description":"AADSTS700213: No matching federated identity record found for presented assertion subject. Trace ID: ` + trace + `"}`))}}
	}
	texts := map[string]bool{}
	for _, trace := range []string{"1", "2"} {
		now := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
		s := azuretest.New(t, now)
		c, err := cloud.New(cloud.Config{Subscription: s.ID, Location: azuretest.Location, Credential: refusing{refused(trace)}, Options: *s.Options(), Clock: now})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.VMs(t.Context(), group)
		texts[err.Error()] = true
		if !cloud.Unknown(err) || !strings.Contains(err.Error(), "AADSTS700213: No matching federated identity record found") {
			t.Errorf("got %v", err)
		}
	}
	if len(texts) != 1 {
		t.Errorf("the texts are %v", texts)
	}
}

// refusing is a credential that gives no token.
type refusing struct{ err error }

func (r refusing) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{}, r.err
}

func TestIDsKnowNoCase(t *testing.T) {
	now := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	s := azuretest.New(t, now)
	c := connect(t, *s.Options(), now)
	subnet := s.AddSubnet(group, "network", "machines", "10.0.0.0/24")
	if _, err := c.Subnet(t.Context(), strings.ToLower(subnet)); err != nil {
		t.Error(err)
	}
	set := s.Put(group, "Microsoft.Compute/diskEncryptionSets", "own", map[string]any{})
	if err := c.DiskEncryptionSet(t.Context(), strings.ToLower(set)); err != nil {
		t.Error(err)
	}
}
