package api_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

// checkAzureCounts checks the length limits of an AKSNodeClass, whose cases would be long in a file.
func checkAzureCounts(t *testing.T, s server) {
	file := readRules(t)["aksnodeclass"]
	newName := namer("azure-count")
	const network = "/subscriptions/s/resourceGroups/%s/providers/Microsoft.Network/"
	list := func(n int, format string) (out []any) {
		for i := range n {
			out = append(out, fmt.Sprintf(format, i))
		}
		return out
	}
	// zones returns a list with many zones of one name, in addition to the two mandatory zones.
	zones := func(list string, n int, name string) any {
		var more []any
		for i := range n {
			more = append(more, dnsZone(fmt.Sprintf(name, i)))
		}
		return localDNS(list, more...)
	}
	disks := func(n int) (out []any) {
		for i := range n {
			out = append(out, map[string]any{"sizeGB": 32, "lun": i})
		}
		return out
	}
	group := strings.Repeat("g", 90)
	label := strings.Repeat("a", 63) + "."
	for _, test := range []struct {
		name, at string
		value    any
		valid    bool
	}{
		{"a resource group of 90", "spec.vnetSubnetID", fmt.Sprintf(network+"virtualNetworks/v/subnets/n", group), true},
		{"a resource group of 91", "spec.vnetSubnetID", fmt.Sprintf(network+"virtualNetworks/v/subnets/n", group+"g"), false},
		{"a key of 512", "spec.tags", map[string]any{strings.Repeat("k", 512): "v"}, true},
		{"a key of 513", "spec.tags", map[string]any{strings.Repeat("k", 513): "v"}, false},
		{"a value of 256", "spec.tags", map[string]any{"k": strings.Repeat("v", 256)}, true},
		{"a value of 257", "spec.tags", map[string]any{"k": strings.Repeat("v", 257)}, false},
		{"100 zones of the network", "spec.localDNS", zones("vnetDNSOverrides", 98, "z%d.example"), true},
		{"101 zones of the network", "spec.localDNS", zones("vnetDNSOverrides", 99, "z%d.example"), false},
		{"100 zones of the cluster", "spec.localDNS", zones("kubeDNSOverrides", 98, "z%d.example"), true},
		{"101 zones of the cluster", "spec.localDNS", zones("kubeDNSOverrides", 99, "z%d.example"), false},
		{"a zone of 254", "spec.localDNS", zones("kubeDNSOverrides", 1, label+label+label+strings.Repeat("a", 60)+"%d."), true},
		{"a zone of 255", "spec.localDNS", zones("kubeDNSOverrides", 1, label+label+label+strings.Repeat("a", 61)+"%d."), false},
		{"user data of 65535", "spec.userData", strings.Repeat("a", 65535), true},
		{"user data of 65536", "spec.userData", strings.Repeat("a", 65536), false},
		{"64 data disks", "spec.dataDisks", disks(64), true},
		{"65 data disks", "spec.dataDisks", disks(65), false},
		{"50 identities", "spec.managedIdentities", list(50, "/subscriptions/s/resourceGroups/g/providers/Microsoft.ManagedIdentity/userAssignedIdentities/i%d"), true},
		{"51 identities", "spec.managedIdentities", list(51, "/subscriptions/s/resourceGroups/g/providers/Microsoft.ManagedIdentity/userAssignedIdentities/i%d"), false},
		{"20 groups", "spec.applicationSecurityGroupIDs", list(20, fmt.Sprintf(network, "g")+"applicationSecurityGroups/a%d"), true},
		{"21 groups", "spec.applicationSecurityGroupIDs", list(21, fmt.Sprintf(network, "g")+"applicationSecurityGroups/a%d"), false},
		{"50 pools", "spec.loadBalancerBackendPoolIDs", list(50, fmt.Sprintf(network, "g")+"loadBalancers/l/backendAddressPools/p%d"), true},
		{"51 pools", "spec.loadBalancerBackendPoolIDs", list(51, fmt.Sprintf(network, "g")+"loadBalancers/l/backendAddressPools/p%d"), false},
	} {
		err := s.create(file.object(t, ruleCase{Rule: test.name, At: test.at}, newName(), test.value, false))
		if test.valid && err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if !test.valid && (err == nil || !strings.Contains(err.Error(), test.at)) {
			t.Errorf("%s: error %v, want one naming %s", test.name, err, test.at)
		}
	}
}

// checkDNSZones checks the rules for a zone, which is an item of a list.
func checkDNSZones(t *testing.T, s server) {
	file := readRules(t)["aksnodeclass"]
	newName := namer("zone")
	for _, list := range []string{"vnetDNSOverrides", "kubeDNSOverrides"} {
		put := func(change map[string]any) error {
			zone := dnsZone("example.com")
			maps.Copy(zone, change)
			maps.DeleteFunc(zone, func(_ string, value any) bool { return value == nil })
			at := ruleCase{Rule: list, At: "spec.localDNS"}
			return s.create(file.object(t, at, newName(), localDNS(list, zone), false))
		}
		for _, test := range []struct {
			field          string
			accept, reject []any
		}{
			{"queryLogging", []any{"Error", "Log"}, []any{nil, "", "Debug"}},
			{"protocol", []any{"PreferUDP", "ForceTCP"}, []any{nil, "", "UDP"}},
			{"forwardDestination", []any{"VnetDNS"}, []any{nil, "", "Internet"}},
			{"forwardPolicy", []any{"Sequential", "RoundRobin", "Random"}, []any{nil, "", "First"}},
			{"maxConcurrent", []any{0, 1000}, []any{nil, -1, "1"}},
			{"cacheDuration", []any{"0s", "90s", "1h30m"}, []any{nil, "", "1d", "1.5h", "10", "500ms"}},
			{"serveStaleDuration", []any{"0s", "90s", "1h30m"}, []any{nil, "", "1d", "1.5h", "10", "500ms"}},
			{"serveStale", []any{"Verify", "Immediate", "Disable"}, []any{nil, "", "Always"}},
		} {
			for _, value := range test.accept {
				if err := put(map[string]any{test.field: value}); err != nil {
					t.Errorf("%s: %s %v was rejected: %v", list, test.field, value, err)
				}
			}
			for _, value := range test.reject {
				if err := put(map[string]any{test.field: value}); err == nil || !strings.Contains(err.Error(), test.field) {
					t.Errorf("%s: %s %v: error %v, want one naming it", list, test.field, value, err)
				}
			}
		}
		err := put(map[string]any{"serveStale": "Verify", "protocol": "ForceTCP"})
		if err == nil || !strings.Contains(err.Error(), "serveStale Verify cannot be combined with protocol ForceTCP") {
			t.Errorf("%s: asking first over TCP: %v", list, err)
		}
	}
}

// dnsZone returns the settings of a zone. Names of the cluster are resolved by the cluster.
func dnsZone(name string) map[string]any {
	destination := "VnetDNS"
	if name == "cluster.local" {
		destination = "ClusterCoreDNS"
	}
	return map[string]any{
		"zone": name, "queryLogging": "Log", "protocol": "PreferUDP", "forwardDestination": destination, "forwardPolicy": "Random",
		"maxConcurrent": 1, "cacheDuration": "1s", "serveStaleDuration": "1s", "serveStale": "Disable",
	}
}

// localDNS returns a DNS cache with additional zones in one list.
func localDNS(list string, more ...any) map[string]any {
	out := map[string]any{"mode": "Required"}
	for _, name := range []string{"vnetDNSOverrides", "kubeDNSOverrides"} {
		out[name] = []any{dnsZone("."), dnsZone("cluster.local")}
	}
	out[list] = append(out[list].([]any), more...)
	return out
}
