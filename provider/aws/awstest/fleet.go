package awstest

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Offering selects offerings of fleets. The zero value of a field means any.
type Offering struct{ InstanceType, Zone, CapacityType string }

// capacity is the number of machines that are left of some offerings.
type capacity struct {
	Offering
	left int
	code string
}

// fleets holds the data about launches that the front needs and moto does not keep.
type fleets struct {
	capacity []*capacity
	full     map[string]string // code by subnet
	// templates holds launch templates by name, answered the answers to calls by their client token.
	templates map[string]launchTemplate
	answered  map[string]string
	// machines holds properties of machines that moto does not have.
	machines map[string]extra
	// silent means that a fleet with too few machines gets no reason. nameless means that the reason does not name the offering. ration is
	// the largest number of machines of a fleet, 0 for no limit.
	silent, nameless bool
	ration           int
}

type launchTemplate struct {
	groups      []string
	reservation string
	userData    string // in base64
	profile     string // its name
}

// extra holds properties of a machine that moto does not have.
type extra struct {
	launchTemplate
	image string
	// group and partition are the placement that EC2 chose.
	group     string
	partition int
	hidden    int // number of further DescribeInstances calls that do not show the machine
}

// Limit leaves a number of machines for all matching offerings together. Requests beyond it are refused with code,
// InsufficientInstanceCapacity if "". A later call for the same offering replaces an earlier one.
func (a *Account) Limit(o Offering, machines int, code string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fleets.capacity = slices.DeleteFunc(a.fleets.capacity, func(c *capacity) bool { return c.Offering == o })
	a.fleets.capacity = append(a.fleets.capacity, &capacity{o, machines, cmp.Or(code, "InsufficientInstanceCapacity")})
}

// Unlimit undoes Limit, FillSubnet, Silence, Anonymize and Ration.
func (a *Account) Unlimit() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fleets.capacity, a.fleets.full, a.fleets.ration = nil, nil, 0
	a.fleets.silent, a.fleets.nameless = false, false
}

// FillSubnet takes all free addresses of a subnet.
func (a *Account) FillSubnet(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fleets.full == nil {
		a.fleets.full = map[string]string{}
	}
	a.fleets.full[id] = "InsufficientFreeAddressesInSubnet"
}

// Silence removes the reasons from answers to fleets with too few machines.
func (a *Account) Silence() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fleets.silent = true
}

// Anonymize removes the offerings from the reasons in answers to fleets with too few machines.
func (a *Account) Anonymize() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fleets.nameless = true
}

// Ration limits the number of machines of every fleet, and removes the reasons from the answers.
func (a *Account) Ration(machines int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fleets.silent, a.fleets.ration = true, machines
}

// Hide hides machines that are started from now on from a number of DescribeInstances calls.
func (a *Account) Hide(calls int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lag = calls
}

// override is one combination of template, type and subnet that a fleet may use.
type override struct {
	template, kind, zone, subnet, image string
	priority                            float64
}

func overrides(form url.Values) (out []override) {
	for i := 1; ; i++ {
		config := fmt.Sprintf("LaunchTemplateConfigs.%d.", i)
		name := form.Get(config + "LaunchTemplateSpecification.LaunchTemplateName")
		if name == "" {
			break
		}
		for j := 1; form.Has(fmt.Sprintf("%sOverrides.%d.InstanceType", config, j)); j++ {
			get := func(field string) string { return form.Get(fmt.Sprintf("%sOverrides.%d.%s", config, j, field)) }
			priority, _ := strconv.ParseFloat(get("Priority"), 64)
			out = append(out, override{name, get("InstanceType"), get("AvailabilityZone"), get("SubnetId"), get("ImageId"), priority})
		}
	}
	slices.SortStableFunc(out, func(a, b override) int { return cmp.Compare(a.priority, b.priority) })
	return out
}

// createFleet starts machines of the cheapest overrides with capacity. Moto would always take the first override, and never refuse one.
func (a *Account) createFleet(r *http.Request, call Call) *answer {
	token := call.Form.Get("ClientToken")
	a.fleeting.Lock() // one at a time: moto is not faster either
	defer a.fleeting.Unlock()
	a.mu.Lock()
	text, known := a.fleets.answered[token]
	a.mu.Unlock()
	if !known {
		var failed *answer
		if text, failed = a.startFleet(r, call); failed != nil {
			return failed
		}
		a.mu.Lock()
		if a.fleets.answered == nil {
			a.fleets.answered = map[string]string{}
		}
		a.fleets.answered[token] = text
		a.mu.Unlock()
	}
	return &answer{status: http.StatusOK, header: http.Header{"Content-Type": {"text/xml"}}, body: []byte(text)}
}

func (a *Account) startFleet(r *http.Request, call Call) (text string, failed *answer) {
	list := overrides(call.Form)
	kind := call.Form.Get("TargetCapacitySpecification.DefaultTargetCapacityType")
	want, _ := strconv.Atoi(call.Form.Get("TargetCapacitySpecification.TotalTargetCapacity"))
	a.mu.Lock()
	silent, ration := a.fleets.silent, a.fleets.ration
	a.mu.Unlock()
	if ration > 0 {
		want = min(want, ration)
	}
	instances, errs := "", ""
	for _, o := range list {
		if want == 0 {
			break
		}
		n, code, known := a.reserve(o, kind, want)
		if !known {
			return "", faultAnswer(call, Fault{Code: "InvalidLaunchTemplateName.NotFoundException", Message: "The specified launch template, with template name " + o.template + ", does not exist."})
		}
		if n > 0 {
			items, failed := a.startSome(r, call, o, kind, n)
			if failed != nil {
				return "", failed
			}
			instances += items
			want -= n
		}
		if code != "" && !silent {
			errs += "<item>" + element("errorCode", code) + element("errorMessage", refusalText(code)) + element("lifecycle", kind) + a.about(o) + "</item>"
		}
	}
	return "<CreateFleetResponse><requestId>r</requestId>" + element("fleetId", "fleet-"+call.Form.Get("ClientToken")) +
		"<errorSet>" + errs + "</errorSet><fleetInstanceSet>" + instances + "</fleetInstanceSet></CreateFleetResponse>", nil
}

// refusalText returns EC2's message for a code.
func refusalText(code string) string {
	if code == "SpotMaxPriceTooLow" {
		return "Your Spot request price of 0.096 is lower than the minimum required Spot request fulfillment price of 0.1041."
	}
	return "There is not enough capacity (" + code + ")."
}

// about returns the part of an error that names the override, "" after Anonymize.
func (a *Account) about(o override) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fleets.nameless {
		return ""
	}
	return o.element()
}

func (o override) element() string {
	return "<launchTemplateAndOverrides><overrides>" + element("instanceType", o.kind) + element("subnetId", o.subnet) + element("availabilityZone", o.zone) +
		element("imageId", o.image) + "</overrides></launchTemplateAndOverrides>"
}

// reserve takes up to `want` machines from the remaining capacity. If it takes fewer, `code` is the reason. `known` is false if the launch
// template does not exist.
func (a *Account) reserve(o override, kind string, want int) (n int, code string, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t, known := a.fleets.templates[o.template]
	if !known {
		return 0, "", false
	}
	if code := a.fleets.full[o.subnet]; code != "" {
		return 0, code, true
	}
	n = want
	if t.reservation != "" {
		for i := range a.reservations {
			if res := &a.reservations[i]; res.ID == t.reservation {
				n = min(n, res.Free)
				res.Free -= n
			}
		}
		if n < want {
			code = "ReservationCapacityExceeded"
		}
		return n, code, true
	}
	var limits []*capacity
	for _, c := range a.fleets.capacity {
		if (c.InstanceType == "" || c.InstanceType == o.kind) && (c.Zone == "" || c.Zone == o.zone) && (c.CapacityType == "" || c.CapacityType == kind) {
			limits = append(limits, c)
			if c.left < n {
				n, code = c.left, c.code
			}
		}
	}
	for _, c := range limits {
		c.left -= n
	}
	return n, code, true
}

// startSome makes moto start machines of one kind.
func (a *Account) startSome(r *http.Request, call Call, o override, kind string, n int) (items string, failed *answer) {
	form := url.Values{}
	for key, values := range call.Form {
		if !strings.HasPrefix(key, "LaunchTemplateConfigs.") && key != "ClientToken" && key != "Context" {
			form[key] = values
		}
	}
	const config = "LaunchTemplateConfigs.1."
	form.Set(config+"LaunchTemplateSpecification.LaunchTemplateName", o.template)
	form.Set(config+"LaunchTemplateSpecification.Version", "$Latest")
	form.Set(config+"Overrides.1.InstanceType", o.kind)
	form.Set(config+"Overrides.1.SubnetId", o.subnet)
	form.Set(config+"Overrides.1.AvailabilityZone", o.zone)
	form.Set(config+"Overrides.1.ImageId", motoImage)
	form.Set("TargetCapacitySpecification.TotalTargetCapacity", strconv.Itoa(n))
	form.Del("ReservedCapacityOptions.ReservationType.1")
	if kind != "spot" {
		form.Set("TargetCapacitySpecification.DefaultTargetCapacityType", "on-demand")
	}
	got := &answer{}
	a.pass(r, []byte(form.Encode()), got)
	if got.status != http.StatusOK {
		return "", got
	}
	tree, err := parseXML(got.body)
	if err != nil {
		return "", &answer{status: http.StatusBadGateway, body: []byte(err.Error())}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, ids := range tree.all("instanceIds") {
		for _, item := range ids.Nodes {
			a.remember(item.Text, extra{launchTemplate: a.fleets.templates[o.template], image: o.image, hidden: a.lag})
			items += "<item><instanceIds>" + element("item", item.Text) + "</instanceIds>" + element("instanceType", o.kind) + element("lifecycle", kind) + o.element() + "</item>"
		}
	}
	return items, nil
}

// remember keeps properties of a machine that moto does not have. The lock is held.
func (a *Account) remember(id string, e extra) {
	if a.fleets.machines == nil {
		a.fleets.machines = map[string]extra{}
	}
	a.fleets.machines[id] = e
}

// keepTemplate keeps the parts of a launch template that moto ignores.
func (a *Account) keepTemplate(call Call) {
	t := launchTemplate{reservation: call.Form.Get("LaunchTemplateData.CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId")}
	t.userData = call.Form.Get("LaunchTemplateData.UserData")
	t.profile = call.Form.Get("LaunchTemplateData.IamInstanceProfile.Name")
	t.groups = call.List("LaunchTemplateData.NetworkInterface.1.SecurityGroupId")
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fleets.templates == nil {
		a.fleets.templates = map[string]launchTemplate{}
	}
	a.fleets.templates[call.Form.Get("LaunchTemplateName")] = t
}

// LoseTemplates deletes all launch templates, as another program might.
func (a *Account) LoseTemplates() {
	a.t.Helper()
	a.mu.Lock()
	names := []string{}
	for name := range a.fleets.templates {
		names = append(names, name)
	}
	a.fleets.templates = nil
	a.mu.Unlock()
	for _, name := range names {
		a.deleteTemplate(name)
	}
}

// withoutProfiles removes the filter on instance profiles, which moto does not know, from a call. It returns the filter's values, nil without
// a filter.
func withoutProfiles(call Call) (body []byte, arns []string) {
	const profiles = "iam-instance-profile.arn"
	filters := call.filters()
	if filters[profiles] == nil {
		return call.Body, nil
	}
	form := url.Values{}
	for key, values := range call.Form {
		if !strings.HasPrefix(key, "Filter.") {
			form[key] = values
		}
	}
	arns = filters[profiles]
	delete(filters, profiles)
	for i, name := range slices.Sorted(maps.Keys(filters)) {
		form.Set(fmt.Sprintf("Filter.%d.Name", i+1), name)
		for j, value := range filters[name] {
			form.Set(fmt.Sprintf("Filter.%d.Value.%d", i+1, j+1), value)
		}
	}
	return []byte(form.Encode()), arns
}

// completed edits moto's answer to DescribeInstances. It removes machines that are still hidden. If arns is not nil, it also removes machines
// with none of these instance profiles. To the others it adds the properties that moto does not have.
func (a *Account) completed(body []byte, arns []string) []byte {
	tree, err := parseXML(body)
	if err != nil {
		return body
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, set := range tree.all("instancesSet") {
		set.Nodes = slices.DeleteFunc(set.Nodes, func(i *node) bool {
			id := i.text("instanceId")
			e, known := a.fleets.machines[id]
			if !known {
				return arns != nil
			}
			if arns != nil {
				at := slices.IndexFunc(arns, func(arn string) bool { return strings.HasSuffix(arn, "/"+e.profile) })
				if at < 0 {
					return true
				}
				i.Nodes = append(i.Nodes, &node{Name: "iamInstanceProfile", Nodes: []*node{{Name: "arn", Text: arns[at]}}})
			}
			if e.hidden > 0 {
				e.hidden--
				a.fleets.machines[id] = e
				return true
			}
			a.complete(i, e)
			return false
		})
	}
	return tree.write()
}

func (a *Account) complete(i *node, e extra) {
	i.set("imageId", e.image)
	i.remove("groupSet")
	groups := &node{Name: "groupSet"}
	for _, id := range e.groups {
		groups.Nodes = append(groups.Nodes, &node{Name: "item", Nodes: []*node{{Name: "groupId", Text: id}}})
	}
	i.Nodes = append(i.Nodes, groups)
	if e.reservation != "" {
		i.set("capacityReservationId", e.reservation)
		i.Nodes = append(i.Nodes, &node{Name: "capacityReservationSpecification", Nodes: []*node{{Name: "capacityReservationPreference", Text: "capacity-reservations-only"}}})
	}
	for _, placement := range i.all("placement") {
		if e.group != "" {
			placement.set("groupId", e.group)
		}
		if e.partition > 0 {
			placement.set("partitionNumber", strconv.Itoa(e.partition))
		}
	}
	if started := a.startedAt; !started.IsZero() {
		i.set("launchTime", started.UTC().Format(time.RFC3339))
	}
}

// EndReservation ends a capacity reservation. Its machines run on as on-demand machines.
func (a *Account) EndReservation(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reservations = slices.DeleteFunc(a.reservations, func(r Reservation) bool { return r.ID == id })
	for name, e := range a.fleets.machines {
		if e.reservation == id {
			e.reservation = ""
			a.remember(name, e)
		}
	}
}

// Place puts a machine into a partition of a placement group.
func (a *Account) Place(id, group string, partition int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.fleets.machines[id]
	e.group, e.partition = group, partition
	a.remember(id, e)
}

// SetGroups changes a machine's security groups, as a user might by hand.
func (a *Account) SetGroups(id string, groups ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.fleets.machines[id]
	e.groups = groups
	a.remember(id, e)
}

// SetLaunchTime sets the launch time of all machines, for tests with another clock than this machine's.
func (a *Account) SetLaunchTime(at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.startedAt = at
}

// stopped gives the places of stopped machines back to their reservations.
func (a *Account) stopped(ids []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range ids {
		e := a.fleets.machines[id]
		for i := range a.reservations {
			if a.reservations[i].ID == e.reservation && e.reservation != "" {
				a.reservations[i].Free++
			}
		}
		e.reservation = ""
		a.remember(id, e)
	}
}
