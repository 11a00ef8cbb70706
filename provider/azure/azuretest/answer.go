package azuretest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Fault replaces the answer to a call.
type Fault struct {
	// Status is the HTTP status, 409 if 0; below 0 the connection is closed without an answer.
	Status        int
	Code, Message string
	// Details are nested errors, in ARM's form.
	Details []Detail
	// Inner is the nested error that some of Azure's services put in innererror.
	Inner *Detail
	// RetryAfter is the time until the next attempt, in whole seconds.
	RetryAfter time.Duration
	// Text is the whole body instead of an error, such as the page of a proxy.
	Text string
	// Times is the number of calls that fail; 0 means all.
	Times int
	// After is the number of calls that succeed before the first call fails.
	After int
	// Done means that the call is carried out and only its answer is lost.
	Done bool
	// Async means that the call is accepted, and its operation ends with the fault. Late means that the resource is made anyway.
	Async, Late bool
	// Hang leaves the call without an answer until the caller gives up. Hung, if set, is called when a call begins to hang; the caller waits
	// meanwhile.
	Hang bool
	Hung func()
}

// Detail is an error within an error.
type Detail struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Target  string `json:"target,omitempty"`
}

// answer is an answer of HTTP.
type answer struct {
	status int
	header map[string]string
	body   any
	fault  *Fault // replaces the other fields
}

func ok(body any) answer { return answer{status: http.StatusOK, body: body} }

func refuse(status int, code, format string, args ...any) answer {
	return answer{fault: &Fault{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}}
}

func (a answer) write(w http.ResponseWriter) {
	if a.fault != nil {
		a.fault.write(w)
		return
	}
	for key, value := range a.header {
		w.Header().Set(key, value)
	}
	if a.body == nil {
		w.WriteHeader(a.status)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(a.status)
	_ = json.NewEncoder(w).Encode(a.body)
}

// object returns the error in ARM's form.
func (f *Fault) object() object {
	out := object{"code": f.Code, "message": f.Message}
	if len(f.Details) > 0 {
		out["details"] = f.Details
	}
	if f.Inner != nil {
		out["innererror"] = f.Inner
	}
	return out
}

func (f *Fault) write(w http.ResponseWriter) {
	if f.Status < 0 {
		if connection, _, err := http.NewResponseController(w).Hijack(); err == nil {
			connection.Close()
		}
		return
	}
	status := f.Status
	if status == 0 {
		status = http.StatusConflict
	}
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", seconds(f.RetryAfter))
	}
	if f.Text != "" {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, f.Text)
		return
	}
	answer{status: status, body: object{"error": f.object()}}.write(w)
}

// seconds formats a time in whole seconds, rounded up.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// serve counts the call, and lets it fail or carries it out.
func (s *Subscription) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if s.signIn(w, r) {
		return
	}
	call := newCall(r, body)
	if call.Path == pricesPath {
		call.Operation = "RetailPrices"
	}
	route, known := routeOf(call)
	if known {
		call.Operation = route.operation
	}
	fault := s.record(call)
	switch {
	case fault != nil && fault.Hang:
		if fault.Done {
			s.carryOut(call, route)
		}
		s.hang(r, call, fault)
		return
	case fault != nil && fault.Async:
		call.async = fault
	case fault != nil:
		if fault.Done {
			s.carryOut(call, route)
		}
		fault.write(w)
		return
	}
	switch {
	case call.Operation == "RetailPrices":
		s.prices(r).write(w)
	case !known:
		refuse(http.StatusNotImplemented, "NotImplemented", "azuretest does not know %s %s", r.Method, r.URL.Path).write(w)
	case r.Header.Get("Authorization") == "":
		refuse(http.StatusUnauthorized, "AuthenticationFailed", "Authentication failed. The 'Authorization' header is missing.").write(w)
	case !call.Query.Has("api-version"):
		refuse(http.StatusBadRequest, "MissingApiVersionParameter", "The api-version query parameter (?api-version=) is required for all requests.").write(w)
	default:
		s.carryOut(call, route).write(w)
	}
}

// record notes a call, and returns its fault if it is to fail.
func (s *Subscription) record(call *Call) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if call.kind == operationKind {
		call.about = s.aboutOperation(call.name())
	}
	s.calls = append(s.calls, *call)
	if s.noAKS && strings.HasPrefix(call.kind, "microsoft.containerservice") {
		s.t.Errorf("a call to AKS: %s %s", call.Method, call.Path)
	}
	for i, f := range s.faults[call.Operation] {
		if f.After > 0 {
			f.After--
			continue
		}
		if f.Times == 1 {
			s.faults[call.Operation] = slices.Delete(s.faults[call.Operation], i, i+1)
		}
		f.Times--
		return f
	}
	return nil
}

// hang waits until the caller gives up. If it does not within a minute, the test fails.
func (s *Subscription) hang(r *http.Request, call *Call, fault *Fault) {
	if fault.Hung != nil {
		fault.Hung()
	}
	select {
	case <-r.Context().Done():
	case <-s.closing:
	case <-time.After(time.Minute):
		s.t.Errorf("%s hung for a minute, and nobody gave it up", call.Operation)
	}
}

// carryOut carries out the call, after it has ended the operations that are due.
func (s *Subscription) carryOut(call *Call, r route) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	if wait, limited := s.limited(call); limited {
		return answer{fault: &Fault{Status: http.StatusTooManyRequests, Code: "SubscriptionRequestsThrottled", RetryAfter: wait,
			Message: fmt.Sprintf("Number of requests for subscription '%s' and operation '%s' exceeded the backend storage limit. Please try again after '%s' seconds.", s.ID, call.Operation, seconds(wait))}}
	}
	if call.subscription != "" && !strings.EqualFold(call.subscription, s.ID) {
		return refuse(http.StatusNotFound, "SubscriptionNotFound", "The subscription '%s' could not be found.", call.subscription)
	}
	if call.group != "" && !s.groups[strings.ToLower(call.group)] {
		return refuse(http.StatusNotFound, "ResourceGroupNotFound", "Resource group '%s' could not be found.", call.group)
	}
	out := r.do(s, call)
	if out.body != nil { // encoded under the lock, so that the value cannot change
		text, err := json.Marshal(out.body)
		if err != nil {
			return refuse(http.StatusInternalServerError, "InternalServerError", "%v", err)
		}
		out.body = json.RawMessage(text)
	}
	return out
}

// route is one call that the server knows.
type route struct {
	operation string
	method    string
	kind      string // in lower case
	names     naming
	do        func(*Subscription, *Call) answer
}

// naming is the kind of a path: one item, or a list.
type naming int

const (
	item naming = iota
	groupList
	list // of the resource before it, or of the subscription
)

const (
	vmKind          = "microsoft.compute/virtualmachines"
	extensionKind   = "microsoft.compute/virtualmachines/extensions"
	diskKind        = "microsoft.compute/disks"
	nicKind         = "microsoft.network/networkinterfaces"
	networkKind     = "microsoft.network/virtualnetworks"
	subnetKind      = "microsoft.network/virtualnetworks/subnets"
	balancerKind    = "microsoft.network/loadbalancers"
	securityKind    = "microsoft.network/networksecuritygroups"
	galleryKind     = "microsoft.compute/galleries/images"
	communityKind   = "microsoft.compute/locations/communitygalleries/images"
	marketplaceKind = "microsoft.compute/locations/publishers/artifacttypes/offers/skus"
	operationKind   = "microsoft.compute/locations/operations"
	resultKind      = "microsoft.compute/locations/operationresults"
	permissionKind  = "microsoft.authorization/permissions" // of the scope before it
)

// routes returns all routes. The first match counts, so lists of a whole subscription come after lists of a group.
func routes() []route {
	const get, put, patch, del, post = http.MethodGet, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodPost
	return []route{
		{"VirtualMachines_CreateOrUpdate", put, vmKind, item, (*Subscription).putVM},
		{"VirtualMachines_Get", get, vmKind, item, (*Subscription).getVM},
		{"VirtualMachines_InstanceView", get, vmKind + "/instanceview", list, (*Subscription).viewVM},
		{"VirtualMachines_Update", patch, vmKind, item, (*Subscription).patchVM},
		{"VirtualMachines_Delete", del, vmKind, item, (*Subscription).deleteVM},
		{"VirtualMachines_SimulateEviction", post, vmKind + "/simulateeviction", list, (*Subscription).simulateEviction},
		{"VirtualMachines_List", get, vmKind, groupList, (*Subscription).list},
		{"VirtualMachines_ListAll", get, vmKind, list, (*Subscription).list},
		{"VirtualMachineExtensions_CreateOrUpdate", put, extensionKind, item, (*Subscription).putExtension},
		{"VirtualMachineExtensions_Update", patch, extensionKind, item, (*Subscription).patchTags},
		{"VirtualMachineExtensions_Delete", del, extensionKind, item, (*Subscription).deleteOther},
		{"VirtualMachineExtensions_Get", get, extensionKind, item, (*Subscription).get},
		{"VirtualMachineExtensions_List", get, extensionKind, list, (*Subscription).list},
		{"Disks_Update", patch, diskKind, item, (*Subscription).patchTags},
		{"Disks_Delete", del, diskKind, item, (*Subscription).deleteOther},
		{"Disks_Get", get, diskKind, item, (*Subscription).get},
		{"Disks_ListByResourceGroup", get, diskKind, groupList, (*Subscription).list},
		{"Disks_List", get, diskKind, list, (*Subscription).list},
		{"NetworkInterfaces_CreateOrUpdate", put, nicKind, item, (*Subscription).putNIC},
		{"NetworkInterfaces_UpdateTags", patch, nicKind, item, (*Subscription).patchTags},
		{"NetworkInterfaces_Delete", del, nicKind, item, (*Subscription).deleteNIC},
		{"NetworkInterfaces_Get", get, nicKind, item, (*Subscription).get},
		{"NetworkInterfaces_List", get, nicKind, groupList, (*Subscription).list},
		{"NetworkInterfaces_ListAll", get, nicKind, list, (*Subscription).list},
		{"VirtualNetworks_Get", get, networkKind, item, (*Subscription).get},
		{"Subnets_Get", get, subnetKind, item, (*Subscription).get},
		{"LoadBalancers_Get", get, balancerKind, item, (*Subscription).get},
		{"LoadBalancers_List", get, balancerKind, groupList, (*Subscription).list},
		{"NetworkSecurityGroups_Get", get, securityKind, item, (*Subscription).get},
		{"NetworkSecurityGroups_List", get, securityKind, groupList, (*Subscription).list},
		{"ResourceSkus_List", get, "microsoft.compute/skus", list, (*Subscription).listSKUs},
		{"Usage_List", get, "microsoft.compute/locations/usages", list, (*Subscription).listUsages},
		{"DiskEncryptionSets_Get", get, "microsoft.compute/diskencryptionsets", item, (*Subscription).get},
		{"Images_Get", get, "microsoft.compute/images", item, (*Subscription).get},
		{"GalleryImages_Get", get, galleryKind, item, (*Subscription).getImage},
		{"GalleryImageVersions_ListByGalleryImage", get, galleryKind + "/versions", list, (*Subscription).listVersions},
		{"GalleryImageVersions_Get", get, galleryKind + "/versions", item, (*Subscription).getVersion},
		{"CommunityGalleryImages_Get", get, communityKind, item, (*Subscription).getImage},
		{"CommunityGalleryImageVersions_List", get, communityKind + "/versions", list, (*Subscription).listVersions},
		{"CommunityGalleryImageVersions_Get", get, communityKind + "/versions", item, (*Subscription).getVersion},
		{"VirtualMachineImages_List", get, marketplaceKind + "/versions", list, (*Subscription).listVersions},
		{"VirtualMachineImages_Get", get, marketplaceKind + "/versions", item, (*Subscription).getVersion},
		{"Operations_Get", get, operationKind, item, (*Subscription).getOperation},
		{"OperationResults_Get", get, resultKind, item, (*Subscription).getResult},
		{"Permissions_List", get, permissionKind, list, (*Subscription).listPermissions},
		{"AgentPools_DeleteMachines", post, deleteMachinesKind, list, (*Subscription).deleteMachines},
		{"Resources", post, "microsoft.resourcegraph/resources", list, (*Subscription).query},
	}
}

func routeOf(call *Call) (route, bool) {
	for _, r := range routes() {
		if r.method == call.Method && r.kind == call.kind && call.list == (r.names != item) && (r.names != groupList || call.group != "") {
			return r, true
		}
	}
	return route{}, false
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
