package azuretest

// Machine is a machine as its owner sees it.
type Machine struct {
	Name, ID string
	Size     Size
	// Zone is a number, "" for none; CapacityType is on-demand or spot.
	Zone, CapacityType string
	// State is how far it is, "Creating", "Succeeded", "Failed" or "Deleting"; Power is running, stopped or deallocated, "" before it runs.
	State, Power string
	// CustomData is what it was given to start with, in base64.
	CustomData string
}

// Runs reports whether the machine has come to be, and nobody takes it away.
func (m *Machine) Runs() bool { return m.State == "Succeeded" && m.Power == "running" }

// Machines are those that there are, in order of their IDs. Looking is no call.
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
