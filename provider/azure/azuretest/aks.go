package azuretest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

const deleteMachinesKind = "microsoft.containerservice/managedclusters/agentpools/deletemachines"

// AKSMachine is a machine that AKS itself has made for a claim, in an agent pool of a cluster.
type AKSMachine struct {
	Cluster, ClusterGroup string // the AKS cluster, and its resource group
	Pool, Name            string
	// Size is the size of the virtual machine. Zone is a number, "" for none.
	Size, Zone string
	// Tags are the tags that AKS sets on the virtual machine and its network interface.
	Tags map[string]string
}

// resource returns the machine's ID in AKS.
func (m *AKSMachine) resource(subscription string) string {
	return "/subscriptions/" + subscription + "/resourceGroups/" + m.ClusterGroup + "/providers/Microsoft.ContainerService/managedClusters/" + m.Cluster + "/agentPools/" + m.Pool + "/machines/" + m.Name
}

// AddAKSMachine adds a machine of AKS, with a running virtual machine in the resource group Group. From then on AKS may be called. It returns
// the ID of the machine, and the name of its virtual machine.
func (s *Subscription) AddAKSMachine(m AKSMachine) (id, vm string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noAKS = false
	s.groups[strings.ToLower(m.ClusterGroup)] = true
	number := s.newID()
	vm = fmt.Sprintf("aks-%s-%s-%s-vm", m.Pool, m.Name, number[len(number)-8:])
	tags := object{}
	for key, value := range m.Tags {
		tags[key] = value
	}
	nic := s.add(s.resourceID(Group, "Microsoft.Network/networkInterfaces", vm+"-nic"), "Microsoft.Network/networkInterfaces", object{"location": Location, "tags": tags,
		"properties": object{"provisioningState": "Succeeded"}})
	body := object{"location": Location, "tags": tags, "properties": object{
		"hardwareProfile": object{"vmSize": m.Size}, "storageProfile": object{"osDisk": object{"deleteOption": "Delete"}},
		"networkProfile": object{"networkInterfaces": []any{object{"id": nic.id, "properties": object{"deleteOption": "Delete"}}}},
	}}
	if m.Zone != "" {
		body["zones"] = []any{m.Zone}
	}
	r := s.add(s.resourceID(Group, "Microsoft.Compute/virtualMachines", vm), "Microsoft.Compute/virtualMachines", body)
	s.complete(r)
	s.attach(r)
	s.started(r, nil)
	id = m.resource(s.ID)
	s.ofAKS[strings.ToLower(id)] = r.key()
	return id, vm
}

// deleteMachines deletes machines of an agent pool, with their virtual machines.
func (s *Subscription) deleteMachines(c *Call) answer {
	body, fault := c.object()
	if fault != nil {
		return answer{fault: fault}
	}
	pool := strings.TrimSuffix(c.id(), "/deletemachines")
	var found []*resource
	for _, name := range listAt(body, "machineNames") {
		text, _ := name.(string)
		if vm := s.resources[s.ofAKS[pool+"/machines/"+strings.ToLower(text)]]; vm != nil {
			found = append(found, vm)
		}
	}
	known := slices.ContainsFunc(sortedKeys(s.ofAKS), func(id string) bool { return strings.HasPrefix(id, pool+"/") })
	switch {
	case !known:
		return refuse(http.StatusNotFound, "NotFound", "The agent pool '%s' could not be found.", c.names[1])
	case len(found) == 0:
		return refuse(http.StatusBadRequest, "InvalidParameter", "Cannot find any valid machines to delete. Please check your input machine names.")
	}
	var op *operation
	for _, vm := range found {
		op = s.beginDelete(vm, c.async)
	}
	return s.accept(http.StatusAccepted, nil, op)
}
