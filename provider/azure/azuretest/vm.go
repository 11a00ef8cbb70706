package azuretest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// putVM makes a machine. For an existing machine of that name, it refuses changes of immutable fields.
func (s *Subscription) putVM(c *Call) answer {
	body, fault := c.object()
	if fault == nil {
		fault = mistaken(body["tags"])
	}
	if fault != nil {
		return answer{fault: fault}
	}
	if there := s.resources[c.id()]; there != nil {
		return s.putAgain(c, there, body)
	}
	size, fault := s.checkVM(c, body)
	if fault != nil {
		return answer{fault: fault}
	}
	spot := textAt(body, "properties.priority") == "Spot"
	if fault = s.place(size, body, spot); fault != nil && !fault.Async {
		s.reserveNICs(c.Path, body)
		return answer{fault: fault}
	}
	if c.async != nil {
		fault = c.async
	}
	vm := s.add(c.Path, "Microsoft.Compute/virtualMachines", body)
	vm.machine = machine{cores: size.CPUs, family: size.Family, spot: spot, customData: textAt(body, "properties.osProfile.customData")}
	s.complete(vm)
	s.attach(vm)
	op := s.begin(s.timing.Create, vm.name(), func() { s.started(vm, fault) }, fault)
	return s.accept(http.StatusCreated, vm.body, op)
}

// complete adds the properties that Azure adds to a new machine.
func (s *Subscription) complete(vm *resource) {
	vm.setState("Creating")
	if vm.body["location"] == nil {
		vm.body["location"] = Location
	}
	put(vm.body, "properties.vmId", s.newID())
	put(vm.body, "properties.timeCreated", s.clock.Now().UTC().Format(time.RFC3339Nano))
	vm.body["properties"] = without(without(vm.body["properties"].(object), "osProfile.customData"), "osProfile.adminPassword")
	if textAt(vm.body, "properties.storageProfile.osDisk.name") == "" {
		put(vm.body, "properties.storageProfile.osDisk.name", vm.name()+"_OsDisk_1_"+strings.ReplaceAll(s.newID(), "-", ""))
	}
	if at(vm.body, "properties.storageProfile.osDisk.diffDiskSettings") != nil {
		return // an ephemeral disk is no resource
	}
	disk := s.add(s.resourceID(vm.group, "Microsoft.Compute/disks", textAt(vm.body, "properties.storageProfile.osDisk.name")), "Microsoft.Compute/disks", object{
		"location": vm.body["location"], "managedBy": vm.id,
		"properties": object{"provisioningState": "Succeeded", "diskState": "Attached", "diskSizeGB": at(vm.body, "properties.storageProfile.osDisk.diskSizeGB")},
	})
	if zones := vm.body["zones"]; zones != nil {
		disk.body["zones"] = zones
	}
	put(vm.body, "properties.storageProfile.osDisk.managedDisk.id", disk.id)
}

// started ends the creation of a machine.
func (s *Subscription) started(vm *resource, fault *Fault) {
	if fault != nil && !fault.Late {
		vm.setState("Failed")
		vm.machine.failure, vm.machine.cores = fault, 0
		s.reserveNICs(vm.id, vm.body)
		return
	}
	vm.setState("Succeeded")
	vm.machine.power = "running"
}

// immutable returns the fields that a PUT may not change.
func immutable() []string {
	return []string{"location", "zones", "properties.hardwareProfile.vmSize", "properties.priority", "properties.storageProfile.imageReference", "properties.osProfile.computerName",
		"properties.osProfile.adminUsername", "properties.osProfile.customData", "properties.storageProfile.osDisk.name"}
}

func (s *Subscription) putAgain(c *Call, vm *resource, body object) answer {
	if textAt(vm.body, "properties.provisioningState") == "Deleting" {
		return refuse(http.StatusConflict, "OperationNotAllowed", "Operation 'createOrUpdate' is not allowed on VM '%s' since the VM is marked for deletion. You can only retry the Delete operation (or wait for an ongoing one to complete).", vm.name())
	}
	for _, path := range immutable() {
		want, is := at(body, path), at(vm.body, path)
		if path == "properties.osProfile.customData" {
			is = vm.machine.customData
		}
		if want != nil && fmt.Sprint(want) != fmt.Sprint(is) {
			property := strings.TrimPrefix(path, "properties.")
			return answer{fault: &Fault{Code: "PropertyChangeNotAllowed", Message: fmt.Sprintf("Changing property '%s' is not allowed.", property)}}
		}
	}
	if tags, given := body["tags"]; given {
		vm.body["tags"] = tags
	}
	op := s.begin(0, vm.name(), func() {}, c.async)
	return s.accept(http.StatusOK, vm.body, op)
}

func (s *Subscription) getVM(c *Call) answer {
	vm := s.resources[c.id()]
	switch {
	case vm == nil:
		return notFound(c)
	case c.Query.Get("$expand") == "instanceView":
		return ok(s.viewed(vm))
	}
	return ok(vm.body)
}

// viewVM answers with the state of a machine alone.
func (s *Subscription) viewVM(c *Call) answer {
	vm := s.resources[strings.TrimSuffix(c.id(), "/instanceview")]
	if vm == nil {
		return notFound(c)
	}
	return ok(at(s.viewed(vm), "properties.instanceView"))
}

// viewed returns a machine with its state.
func (s *Subscription) viewed(vm *resource) object {
	state := textAt(vm.body, "properties.provisioningState")
	statuses := []any{object{"code": "ProvisioningState/" + strings.ToLower(state), "level": "Info", "displayStatus": "Provisioning " + strings.ToLower(state)}}
	if f := vm.machine.failure; f != nil {
		statuses = []any{object{"code": "ProvisioningState/failed/" + f.Code, "level": "Error", "displayStatus": "Provisioning failed", "message": f.Message}}
	}
	if vm.machine.power != "" {
		statuses = append(statuses, object{"code": "PowerState/" + vm.machine.power, "level": "Info", "displayStatus": "VM " + vm.machine.power})
	}
	out := without(vm.body, "properties.instanceView") // a copy
	put(out, "properties.instanceView", object{"statuses": statuses})
	return out
}

// patchVM changes tags, and adds identities.
func (s *Subscription) patchVM(c *Call) answer {
	vm := s.resources[c.id()]
	if vm == nil {
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
		vm.body["tags"] = tags
	}
	if added, _ := at(body, "identity.userAssignedIdentities").(object); added != nil {
		put(vm.body, "identity.type", "UserAssigned")
		have, _ := at(vm.body, "identity.userAssignedIdentities").(object)
		all := object{}
		for _, list := range []object{have, added} {
			for id, value := range list {
				all[id] = value
			}
		}
		put(vm.body, "identity.userAssignedIdentities", all)
	}
	return s.accept(http.StatusOK, vm.body, s.begin(0, vm.name(), func() {}, c.async))
}

// deleteVM deletes a machine, with the resources whose deleteOption is Delete.
func (s *Subscription) deleteVM(c *Call) answer {
	vm := s.resources[c.id()]
	if vm == nil {
		return answer{status: http.StatusNoContent}
	}
	return s.accept(http.StatusAccepted, nil, s.beginDelete(vm, c.async))
}

func (s *Subscription) beginDelete(vm *resource, fault *Fault) *operation {
	s.preempt(vm.name())
	vm.setState("Deleting")
	return s.begin(s.timing.Delete, vm.name(), func() {
		if fault != nil && !fault.Late {
			vm.setState("Failed")
			return
		}
		s.removeVM(vm)
	}, fault)
}

// removeVM removes a machine with its extensions, and the disk and interfaces whose deleteOption is Delete.
func (s *Subscription) removeVM(vm *resource) {
	for _, extension := range s.under(vm.id, extensionKind) {
		s.remove(extension.key())
	}
	for _, nic := range nicsOf(vm.body) {
		delete(s.reserved, strings.ToLower(nic.id))
		if nic.deleted {
			s.remove(nic.id)
		} else if r := s.resources[strings.ToLower(nic.id)]; r != nil {
			r.body["properties"] = without(r.body["properties"].(object), "virtualMachine")
		}
	}
	disk := s.resources[strings.ToLower(textAt(vm.body, "properties.storageProfile.osDisk.managedDisk.id"))]
	if disk != nil && textAt(vm.body, "properties.storageProfile.osDisk.deleteOption") == "Delete" {
		s.remove(disk.key())
	} else if disk != nil {
		delete(disk.body, "managedBy")
		put(disk.body, "properties.diskState", "Unattached")
	}
	s.remove(vm.key())
}

// putExtension adds an extension to a machine.
func (s *Subscription) putExtension(c *Call) answer {
	body, fault := c.object()
	if fault != nil {
		return answer{fault: fault}
	}
	vm := s.resources[c.id()[:strings.LastIndex(c.id(), "/extensions/")]]
	if vm == nil {
		return refuse(http.StatusNotFound, "ParentResourceNotFound", "Failed to perform 'write' on resource(s) of type 'virtualMachines/extensions', because the parent resource '%s' could not be found.", c.names[0])
	}
	if textAt(vm.body, "properties.provisioningState") == "Deleting" {
		return refuse(http.StatusConflict, "OperationNotAllowed", "Cannot modify extensions in the VM when the VM is not running.")
	}
	body["properties"] = without(body["properties"].(object), "protectedSettings")
	r := s.add(c.Path, "Microsoft.Compute/virtualMachines/extensions", body)
	r.setState("Creating")
	extensions := []any{}
	for _, e := range s.under(vm.id, extensionKind) {
		extensions = append(extensions, e.body)
	}
	vm.body["resources"] = extensions
	op := s.begin(0, vm.name(), func() {
		r.setState("Succeeded")
		if c.async != nil {
			r.setState("Failed")
		}
	}, c.async)
	return s.accept(http.StatusCreated, r.body, op)
}

// vm returns a machine by its name in any group. The lock is held.
func (s *Subscription) vm(name string) *resource {
	for _, r := range s.resources {
		if r.kind == vmKind && strings.EqualFold(r.name(), name) {
			return r
		}
	}
	s.t.Helper()
	s.t.Fatalf("no machine %s", name)
	return nil
}

// CustomData returns a machine's custom data, in base64.
func (s *Subscription) CustomData(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.vm(name).machine.customData
}

// Power sets a machine to running, stopped or deallocated, as a user might.
func (s *Subscription) Power(name, state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.vm(name).machine.power = state
}

// Evict takes a spot machine back, by its eviction policy.
func (s *Subscription) Evict(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	s.evict(s.vm(name))
}

func (s *Subscription) evict(vm *resource) {
	if textAt(vm.body, "properties.evictionPolicy") == "Delete" {
		s.beginDelete(vm, nil)
		return
	}
	vm.machine.power = "deallocated"
}

// evictionNotice is the time between SimulateEviction and the eviction.
const evictionNotice = 30 * time.Second

func (s *Subscription) simulateEviction(c *Call) answer {
	vm := s.resources[strings.TrimSuffix(c.id(), "/simulateeviction")]
	if vm == nil {
		return notFound(c)
	}
	if !vm.machine.spot {
		return refuse(http.StatusConflict, "OperationNotAllowed", "The operation 'simulateEviction' is allowed only on spot VMs.")
	}
	s.begin(evictionNotice, vm.name(), func() { s.evict(vm) }, nil)
	return answer{status: http.StatusNoContent}
}

// Age moves the creation of a machine to an earlier time, in lists and timeCreated.
func (s *Subscription) Age(name string, by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	vm := s.vm(name)
	vm.made = vm.made.Add(-by)
	put(vm.body, "properties.timeCreated", vm.made.UTC().Format(time.RFC3339Nano))
}

// zoneOf returns the zone that a machine asks for, "" for none.
func zoneOf(body object) string {
	zones := listAt(body, "zones")
	if len(zones) == 0 {
		return ""
	}
	zone, _ := zones[0].(string)
	return zone
}

func hasZone(s Size, zone string) bool { return zone == "" || slices.Contains(s.Zones, zone) }
