package azuretest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// resource is a resource that a PUT made.
type resource struct {
	target
	id    string // as it was made
	lower string // the same in lower case
	body  object // as a GET answers
	made  time.Time
	end   time.Time // the time of its deletion

	machine machine // of a virtual machine
}

// machine holds the state of a virtual machine beyond its description.
type machine struct {
	power      string // running, stopped, deallocated; "" before it runs
	failure    *Fault
	customData string // in base64, which Azure never shows
	cores      int    // that count against the quotas
	family     string
	spot       bool
}

// key returns the ID in lower case, because ARM's IDs are not case-sensitive.
func (r *resource) key() string { return r.lower }

func (r *resource) tags() map[string]any {
	tags, _ := r.body["tags"].(object)
	return tags
}

func (r *resource) setState(state string) { put(r.body, "properties.provisioningState", state) }

// resourceID returns the ID of a resource of a kind, "Microsoft.Compute/virtualMachines".
func (s *Subscription) resourceID(group, kind, name string) string {
	return "/subscriptions/" + s.ID + "/resourceGroups/" + group + "/providers/" + kind + "/" + name
}

// add stores a resource. The lock is held.
func (s *Subscription) add(id, kind string, body object) *resource {
	r := &resource{target: parseTarget(id), id: id, lower: strings.ToLower(id), body: body, made: s.clock.Now()}
	body["id"], body["name"], body["type"] = id, r.name(), kind
	s.resources[r.key()] = r
	return r
}

// remove removes a resource. The lock is held.
func (s *Subscription) remove(key string) {
	r := s.resources[strings.ToLower(key)]
	if r == nil {
		return
	}
	delete(s.resources, r.key())
	r.end = s.clock.Now()
	s.gone = append(s.gone, r)
}

// under returns the resources of a kind below a path, ordered. The lock is held.
func (s *Subscription) under(path, kind string) (out []*resource) {
	for _, key := range sortedKeys(s.resources) {
		if r := s.resources[key]; r.kind == kind && strings.HasPrefix(key, strings.ToLower(path)+"/") {
			out = append(out, r)
		}
	}
	return out
}

// seen returns the resources of a kind that a list with this lag shows, ordered. The lock is held.
func (s *Subscription) seen(kind string, lag time.Duration) (out []*resource) {
	then := s.clock.Now().Add(-lag)
	for _, r := range s.resources {
		if r.kind == kind && !r.made.After(then) {
			out = append(out, r)
		}
	}
	for _, r := range s.gone {
		if r.kind == kind && !r.made.After(then) && r.end.After(then) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *resource) int {
		return cmp.Or(cmp.Compare(a.key(), b.key()), a.made.Compare(b.made))
	})
	return out
}

func notFound(c *Call) answer {
	return refuse(http.StatusNotFound, "ResourceNotFound", "The Resource '%s' under resource group '%s' was not found. For more details please go to https://aka.ms/ARMResourceNotFoundFix",
		c.Path[strings.LastIndex(c.Path, "/providers/")+len("/providers/"):], c.group)
}

func (s *Subscription) get(c *Call) answer {
	if r := s.resources[c.id()]; r != nil {
		return ok(s.shown(r))
	}
	return notFound(c)
}

// pageSize is the number of resources on a page of a list.
const pageSize = 50

// list answers with the resources of a kind in a group, a subscription or another resource, in pages.
func (s *Subscription) list(c *Call) answer {
	if c.kind == vmKind && c.Query.Has("$expand") && !c.Query.Has("$filter") {
		return refuse(http.StatusBadRequest, "InvalidParameter", "'instanceView' can be expanded only with a valid $filter.")
	}
	values := []any{}
	for _, r := range s.seen(c.kind, s.timing.Lists) {
		inGroup := c.group == "" || strings.EqualFold(c.group, r.group)
		inParent := len(c.names) == 0 || strings.HasPrefix(r.key(), c.id()+"/")
		if !inGroup || !inParent {
			continue
		}
		values = append(values, s.shown(r))
	}
	return s.page(c, values, pageSize)
}

// page returns the page of a list that a call asks for.
func (s *Subscription) page(c *Call, values []any, size int) answer {
	from := 0
	_, _ = fmt.Sscan(c.Query.Get("$skiptoken"), &from)
	from = min(from, len(values))
	to := min(from+size, len(values))
	out := object{"value": values[from:to]}
	if to < len(values) {
		query := c.Query
		query.Set("$skiptoken", fmt.Sprint(to))
		out["nextLink"] = s.URL + c.Path + "?" + query.Encode()
	}
	return ok(out)
}

// shown returns the answer to a GET.
func (s *Subscription) shown(r *resource) object {
	if r.kind != subnetKind && r.kind != networkKind {
		return r.body
	}
	return s.shownNetwork(r)
}

// mistaken returns the mistake in tags, nil if there is none.
func mistaken(tags any) *Fault {
	list, _ := tags.(object)
	if len(list) > 50 {
		return &Fault{Status: http.StatusBadRequest, Code: "InvalidTags", Message: "The number of tags must be less than or equal to 50."}
	}
	seen := map[string]bool{}
	for key, value := range list {
		text, _ := value.(string)
		lower := strings.ToLower(key)
		if strings.ContainsAny(key, `<>%&\?/`) || len(key) > 512 || len(text) > 256 || seen[lower] {
			return &Fault{Status: http.StatusBadRequest, Code: "InvalidTagNameCharacters", Message: fmt.Sprintf("The tag name '%s' or its value is not valid: the characters '<,>,%%,&,\\,?,/' and lengths above 512 and 256 are not, and names differ in more than case.", key)}
		}
		seen[lower] = true
	}
	return nil
}

// patchTags replaces the tags of a resource.
func (s *Subscription) patchTags(c *Call) answer {
	r := s.resources[c.id()]
	if r == nil {
		return notFound(c)
	}
	body, fault := c.object()
	if fault == nil {
		fault = mistaken(body["tags"])
	}
	if fault != nil {
		return answer{fault: fault}
	}
	if tags, given := body["tags"]; given {
		r.body["tags"] = tags
	}
	return ok(r.body)
}

// deleteOther deletes a resource, unless a machine uses it.
func (s *Subscription) deleteOther(c *Call) answer {
	r := s.resources[c.id()]
	if r == nil {
		return answer{status: http.StatusNoContent}
	}
	if owner := textAt(r.body, "managedBy"); owner != "" {
		return refuse(http.StatusConflict, "OperationNotAllowed", "Disk %s is attached to VM %s.", r.name(), owner)
	}
	return s.accept(http.StatusAccepted, nil, s.begin(0, r.name(), func() { s.remove(r.key()) }, c.async))
}

// Put adds a resource of any kind, such as a load balancer, as if another program had made it. properties are the properties that Azure
// shows. It returns its ID.
func (s *Subscription) Put(group, kind, name string, properties any) string {
	s.t.Helper()
	text, err := json.Marshal(object{"location": Location, "properties": properties})
	s.must(err)
	var body object
	s.must(json.Unmarshal(text, &body))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setDefault(body, "properties.provisioningState", "Succeeded")
	return s.add(s.resourceID(group, kind, name), kind, body).id
}

func (s *Subscription) setDefault(o object, path string, value any) {
	if at(o, path) == nil {
		put(o, path, value)
	}
}

// Remove deletes a resource by its ID, as another program might.
func (s *Subscription) Remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.resources[strings.ToLower(id)]; r != nil && r.kind == vmKind {
		s.removeVM(r)
		return
	}
	s.remove(id)
}

// Names returns the names of the existing resources of a kind, "Microsoft.Compute/virtualMachines", ordered.
func (s *Subscription) Names(kind string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	out := []string{}
	for _, r := range s.seen(strings.ToLower(kind), 0) {
		out = append(out, r.name())
	}
	return out
}

// Tags returns the tags of a resource.
func (s *Subscription) Tags(id string) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]string{}
	if r := s.resources[strings.ToLower(id)]; r != nil {
		for key, value := range r.tags() {
			out[key], _ = value.(string)
		}
	}
	return out
}
