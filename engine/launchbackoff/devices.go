package launchbackoff

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/dra"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// published returns the devices that drivers have published. It returns nil if no pod claims devices.
func (j *Judge) published() *dra.Published {
	if j.Constraints.Claims == nil {
		return nil
	}
	return j.Pods.Cache.PublishedIn(j.Snapshot)
}

// silent returns a driver without published devices for the machine's node, although the node has been ready for long. The pod claims devices of
// the driver, and the machine was started for them. silent returns "" if there is no such driver. The other demands of the pod do not matter.
func (j *Judge) silent(m *inventory.Machine, info *inventory.PodInfo, published *dra.Published) string {
	if published == nil || !m.Misses || !j.Pods.Cache.ClaimsDevices(info) {
		return ""
	}
	wanted := j.Constraints.OfInfo(info).Devices.Drivers()
	for _, driver := range kube.DriversAskedFor(m.Claim) {
		if slices.Contains(wanted, driver) && published.Lacks(m.Node, []string{driver}) != "" {
			return driver
		}
	}
	return ""
}

// driverless returns the message that the machine has no devices of the driver.
func driverless(m *inventory.Machine, driver string, published *dra.Published) string {
	return fmt.Sprintf("machine %s (%s) was started for such devices and has none: %s for its node, which has been ready for %s",
		m.Claim.Name, m.Labels[corev1.LabelInstanceTypeStable], published.Lacks(m.Node, []string{driver}), inventory.ResourcePatience)
}
