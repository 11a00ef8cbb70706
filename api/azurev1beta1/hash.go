package azurev1beta1

import (
	"cmp"
	"encoding/json"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"

	v1 "tenon.sh/api/v1"
)

// HashVersion names the way Hash works.
const HashVersion = v1.ClassHashVersion

// Hash is a fingerprint of everything in the class whose change makes its machines drift: all but the tags and the
// identities, which are changed in place, and the overhead, which is only planned with. What says nothing is as if it
// were not there, and order does not matter.
func (c *AKSNodeClass) Hash() string {
	spec := c.Spec.DeepCopy()
	spec.Tags, spec.ManagedIdentities, spec.Overhead = nil, nil, nil
	if spec.FIPSMode == FIPSDisabled {
		spec.FIPSMode = ""
	}
	slices.Sort(spec.ApplicationSecurityGroupIDs)
	slices.Sort(spec.LoadBalancerBackendPoolIDs)
	slices.SortFunc(spec.DataDisks, func(a, b DataDisk) int { return cmp.Compare(a.LUN, b.LUN) })
	if spec.Kubelet != nil {
		slices.Sort(spec.Kubelet.AllowedUnsafeSysctls)
	}
	if spec.LocalDNS != nil {
		slices.SortFunc(spec.LocalDNS.VnetDNSOverrides, byZone)
		slices.SortFunc(spec.LocalDNS.KubeDNSOverrides, byZone)
	}
	var fields map[string]any
	if err := json.Unmarshal(text(spec), &fields); err != nil {
		panic("read the fields of a node class: " + err.Error()) // they were written a moment ago
	}
	dropEmpty(fields)
	return v1.Fingerprint(text(fields))
}

// InPlaceUpdateHash is a fingerprint of what is changed while a machine runs: its identities and tags. identities and tags
// are those that the class's own are added to. A machine is brought up to date if the hash on its claim is another.
func (c *AKSNodeClass) InPlaceUpdateHash(identities []string, tags map[string]string) string {
	all := slices.Concat(identities, c.Spec.ManagedIdentities)
	slices.Sort(all)
	merged := map[string]string{}
	maps.Copy(merged, tags)
	maps.Copy(merged, c.Spec.Tags)
	h := fnv.New32a()
	h.Write(text(map[string]any{"identities": slices.Compact(all), "tags": merged}))
	return strconv.FormatUint(uint64(h.Sum32()), 10)
}

func byZone(a, b LocalDNSZone) int { return cmp.Compare(a.Zone, b.Zone) }

// dropEmpty takes out objects without fields, at any depth.
func dropEmpty(fields map[string]any) {
	for key, value := range fields {
		if inner, ok := value.(map[string]any); ok {
			dropEmpty(inner)
			if len(inner) == 0 {
				delete(fields, key)
			}
		}
	}
}

// text is JSON, the keys of maps in order.
func text(value any) []byte {
	out, err := json.Marshal(value)
	if err != nil {
		panic("write the fields of a node class: " + err.Error()) // they are all plain values
	}
	return out
}
