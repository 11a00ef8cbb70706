package azurev1beta1

import "strings"

// OneCase returns the provider ID of an Azure machine in one spelling, so that IDs can be compared. Azure ignores upper and lower case in
// the ID, and the IDs on Nodes and claims come from settings and answers with different spellings. OneCase returns other texts unchanged,
// including the IDs of machines in scale sets.
//
//	azure:///subscriptions/S/resourceGroups/G/providers/Microsoft.Compute/virtualMachines/N, with S, G and N in lower case
func OneCase(providerID string) string {
	const subscriptions, groups, machines = "azure:///subscriptions/", "/resourceGroups/", "/providers/Microsoft.Compute/virtualMachines/"
	if len(providerID) < len(subscriptions) || !strings.EqualFold(providerID[:len(subscriptions)], subscriptions) {
		return providerID
	}
	subscription, rest := upTo(providerID[len(subscriptions):], "/")
	if len(rest) < len(groups) || !strings.EqualFold(rest[:len(groups)], groups) {
		return providerID
	}
	group, rest := upTo(rest[len(groups):], "/")
	if len(rest) < len(machines) || !strings.EqualFold(rest[:len(machines)], machines) {
		return providerID
	}
	name := rest[len(machines):]
	if subscription == "" || group == "" || name == "" || strings.Contains(name, "/") {
		return providerID
	}
	return subscriptions + strings.ToLower(subscription) + groups + strings.ToLower(group) + machines + strings.ToLower(name)
}

// upTo splits a text before the first end. The rest begins with end.
func upTo(text, end string) (before, rest string) {
	if i := strings.Index(text, end); i >= 0 {
		return text[:i], text[i:]
	}
	return text, ""
}
