package azuretest

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// reservedFor is the time for which a network interface stays reserved for a machine that failed.
const reservedFor = 180 * time.Second

// reservation names the machine, by ID, for which a network interface is reserved.
type reservation struct {
	vm    string
	until time.Time
}

// usedNIC is a network interface in a machine's description.
type usedNIC struct {
	id      string
	deleted bool // with the machine
}

func nicsOf(vm object) (out []usedNIC) {
	for _, n := range listAt(vm, "properties.networkProfile.networkInterfaces") {
		out = append(out, usedNIC{textAt(n, "id"), textAt(n, "properties.deleteOption") == "Delete"})
	}
	return out
}

// AddSubnet makes a subnet, and its network if that does not exist. The range of addresses decides how many are free: Azure keeps five of
// them. It returns the subnet's ID.
func (s *Subscription) AddSubnet(group, network, name, addresses string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.resourceID(group, "Microsoft.Network/virtualNetworks", network)
	if s.resources[strings.ToLower(id)] == nil {
		s.add(id, "Microsoft.Network/virtualNetworks", object{"location": Location, "properties": object{
			"provisioningState": "Succeeded", "resourceGuid": s.newID(), "addressSpace": object{"addressPrefixes": []any{"10.0.0.0/8"}},
		}})
	}
	return s.add(id+"/subnets/"+name, "Microsoft.Network/virtualNetworks/subnets", object{"properties": object{"provisioningState": "Succeeded", "addressPrefix": addresses}}).id
}

// shownNetwork returns a network with its subnets, or a subnet with the IDs of the configurations that have addresses in it.
func (s *Subscription) shownNetwork(r *resource) object {
	out := without(r.body, "properties.subnets") // a copy
	if r.kind == networkKind {
		subnets := []any{}
		for _, subnet := range s.under(r.id, subnetKind) {
			subnets = append(subnets, s.shownNetwork(subnet))
		}
		put(out, "properties.subnets", subnets)
		return out
	}
	configurations := []any{}
	for _, id := range s.addressesIn(r.id, "") {
		configurations = append(configurations, object{"id": id})
	}
	put(out, "properties.ipConfigurations", configurations)
	return out
}

// addressesIn returns the IDs of the configurations that have an address in a subnet, except those of one interface.
func (s *Subscription) addressesIn(subnet, except string) (out []string) {
	for _, key := range sortedKeys(s.resources) {
		r := s.resources[key]
		if r.kind != nicKind || key == except {
			continue
		}
		for _, c := range listAt(r.body, "properties.ipConfigurations") {
			if strings.EqualFold(textAt(c, "properties.subnet.id"), subnet) {
				out = append(out, textAt(c, "id"))
			}
		}
	}
	return out
}

// putNIC makes or changes a network interface.
func (s *Subscription) putNIC(c *Call) answer {
	body, fault := c.object()
	if fault == nil {
		fault = mistaken(body["tags"])
	}
	if fault == nil {
		fault = s.checkNIC(c, body)
	}
	if fault != nil {
		return answer{fault: fault}
	}
	status := http.StatusCreated
	there := s.resources[c.id()]
	if there != nil {
		status = http.StatusOK
		put(body, "properties.virtualMachine", at(there.body, "properties.virtualMachine"))
	}
	nic := s.add(c.Path, "Microsoft.Network/networkInterfaces", body)
	if there != nil {
		nic.made = there.made
	}
	for _, each := range listAt(body, "properties.ipConfigurations") {
		configuration := each.(object)
		configuration["id"] = nic.id + "/ipConfigurations/" + textAt(configuration, "name")
		put(configuration, "properties.provisioningState", "Succeeded")
		put(configuration, "properties.privateIPAddress", fmt.Sprintf("10.%d.%d.%d", s.number>>16&255, s.number>>8&255, s.number&255))
		s.number++
	}
	nic.setState("Succeeded")
	op := s.begin(0, nic.name(), func() {
		if c.async != nil {
			nic.setState("Failed")
		}
	}, c.async)
	if c.async != nil {
		nic.setState("Updating")
	}
	return s.accept(status, body, op)
}

// checkNIC returns the mistake in an interface, nil if there is none.
func (s *Subscription) checkNIC(c *Call, body object) *Fault {
	needs := map[string]int{}
	for _, configuration := range listAt(body, "properties.ipConfigurations") {
		for _, pool := range listAt(configuration, "properties.loadBalancerBackendAddressPools") {
			if !s.hasPool(textAt(pool, "id")) {
				return missingReference(textAt(pool, "id"), c.Path)
			}
		}
		subnet := textAt(configuration, "properties.subnet.id")
		if s.resources[strings.ToLower(subnet)] == nil {
			return missingReference(subnet, c.Path)
		}
		needs[subnet]++
	}
	if group := textAt(body, "properties.networkSecurityGroup.id"); group != "" && s.resources[strings.ToLower(group)] == nil {
		return missingReference(group, c.Path)
	}
	for _, subnet := range sortedKeys(needs) {
		addresses := textAt(s.resources[strings.ToLower(subnet)].body, "properties.addressPrefix")
		if needs[subnet] > free(addresses)-len(s.addressesIn(subnet, c.id())) {
			return &Fault{Status: http.StatusBadRequest, Code: "SubnetIsFull", Message: fmt.Sprintf("Subnet %s with address prefix %s does not have enough capacity for %d IP addresses.", subnet[strings.LastIndex(subnet, "/")+1:], addresses, needs[subnet])}
		}
	}
	return nil
}

// free returns the number of addresses of a range that Azure does not keep.
func free(addresses string) int {
	prefix, err := netip.ParsePrefix(addresses)
	if err != nil {
		return 0
	}
	return 1<<(prefix.Addr().BitLen()-prefix.Bits()) - 5
}

func missingReference(id, by string) *Fault {
	return &Fault{Status: http.StatusBadRequest, Code: "InvalidResourceReference", Message: fmt.Sprintf("Resource %s referenced by resource %s was not found. Please make sure that the referenced resource exists, and that both resources are in the same region.", id, by)}
}

func (s *Subscription) hasPool(id string) bool {
	balancer, _, _ := strings.Cut(strings.ToLower(id), "/backendaddresspools/")
	r := s.resources[balancer]
	if r == nil {
		return false
	}
	for _, pool := range listAt(r.body, "properties.backendAddressPools") {
		if strings.EqualFold(textAt(pool, "id"), id) {
			return true
		}
	}
	return false
}

// AddBalancer makes a load balancer with pools, and returns the IDs of the pools.
func (s *Subscription) AddBalancer(group, name string, pools ...string) (ids []string) {
	s.t.Helper()
	list := []any{}
	for _, pool := range pools {
		id := s.resourceID(group, "Microsoft.Network/loadBalancers", name) + "/backendAddressPools/" + pool
		ids = append(ids, id)
		list = append(list, object{"id": id, "name": pool, "properties": object{"loadBalancerBackendAddresses": []any{}}})
	}
	s.Put(group, "Microsoft.Network/loadBalancers", name, object{"backendAddressPools": list})
	return ids
}

// deleteNIC deletes an interface, unless a machine uses it or it is reserved for one.
func (s *Subscription) deleteNIC(c *Call) answer {
	nic := s.resources[c.id()]
	if nic == nil {
		return answer{status: http.StatusNoContent}
	}
	if fault := s.kept(nic.id, ""); fault != nil {
		return answer{fault: fault}
	}
	if vm := textAt(nic.body, "properties.virtualMachine.id"); vm != "" {
		return refuse(http.StatusBadRequest, "NicInUse", "Network Interface %s is used by existing resource %s. In order to delete the network interface, it must be dissociated from the resource.", nic.id, vm)
	}
	return s.accept(http.StatusAccepted, nil, s.begin(0, nic.name(), func() { s.remove(nic.key()) }, c.async))
}

// checkNICs returns a fault if a machine cannot have one of its interfaces, nil if it can have all.
func (s *Subscription) checkNICs(vm string, body object) *Fault {
	list := nicsOf(body)
	if len(list) == 0 {
		return &Fault{Status: http.StatusBadRequest, Code: "InvalidParameter", Message: "Virtual Machine must have at least one network interface."}
	}
	for _, used := range list {
		nic := s.resources[strings.ToLower(used.id)]
		if nic == nil {
			return &Fault{Status: http.StatusNotFound, Code: "NotFound", Message: fmt.Sprintf("Resource %s was not found.", used.id)}
		}
		if owner := textAt(nic.body, "properties.virtualMachine.id"); owner != "" && !strings.EqualFold(owner, vm) {
			return &Fault{Status: http.StatusBadRequest, Code: "NicInUse", Message: fmt.Sprintf("Network Interface %s is used by existing resource %s.", nic.id, owner)}
		}
		if fault := s.kept(nic.id, vm); fault != nil {
			return fault
		}
	}
	return nil
}

// kept returns a fault if an interface is reserved for another machine than vm, nil if not.
func (s *Subscription) kept(nic, vm string) *Fault {
	r, kept := s.reserved[strings.ToLower(nic)]
	if !kept || strings.EqualFold(r.vm, vm) || !s.clock.Now().Before(r.until) {
		return nil
	}
	return &Fault{Status: http.StatusBadRequest, Code: "NicReservedForAnotherVm", Message: fmt.Sprintf("Nic(s) in request is reserved for another Virtual Machine for %d seconds. Please provide another nic(s) or retry after %d seconds. Reserved VM: %s", 180, 180, r.vm)}
}

// reserveNICs reserves the interfaces of a machine that failed.
func (s *Subscription) reserveNICs(vm string, body object) {
	for _, used := range nicsOf(body) {
		s.reserved[strings.ToLower(used.id)] = reservation{vm, s.clock.Now().Add(reservedFor)}
	}
}

// attach attaches a machine's interfaces to it.
func (s *Subscription) attach(vm *resource) {
	for _, used := range nicsOf(vm.body) {
		put(s.resources[strings.ToLower(used.id)].body, "properties.virtualMachine", object{"id": vm.id})
	}
}
