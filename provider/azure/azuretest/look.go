package azuretest

// Machine holds the properties of a machine that its owner can see.
type Machine struct {
	Name, ID string
	Size     Size
	// Zone is a number, "" for none; CapacityType is on-demand or spot.
	Zone, CapacityType string
	// State is the provisioning state, "Creating", "Succeeded", "Failed" or "Deleting"; Power is running, stopped or deallocated, "" before
	// it runs.
	State, Power string
	// CustomData is the machine's custom data, in base64.
	CustomData string
}

// Runs reports whether the machine runs and is not being deleted.
func (m *Machine) Runs() bool { return m.State == "Succeeded" && m.Power == "running" }

// Machines returns the existing machines, in order of their IDs. It does not count as a call.
func (s *Subscription) Machines() (out []Machine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	for _, vm := range s.seen(vmKind, 0) {
		size, _ := s.size(textAt(vm.body, "properties.hardwareProfile.vmSize"))
		m := Machine{
			Name: vm.name(), ID: vm.id, Size: size, Zone: zoneOf(vm.body), CapacityType: "on-demand",
			State: textAt(vm.body, "properties.provisioningState"), Power: vm.machine.power, CustomData: vm.machine.customData,
		}
		if vm.machine.spot {
			m.CapacityType = "spot"
		}
		out = append(out, m)
	}
	return out
}
