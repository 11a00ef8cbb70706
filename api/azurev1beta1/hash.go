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

// HashVersion names the algorithm of Hash.
const HashVersion = v1.ClassHashVersion

// Hash returns a fingerprint of the fields of the class whose change makes its machines drift: all except tags and identities, which are
// changed in place, and overhead, which only plans use. A field without an effect counts as absent, and the order of lists does not matter.
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
		panic("read the fields of a node class: " + err.Error()) // the text was written by the line before
	}
	dropEmpty(fields)
	return v1.Fingerprint(text(fields))
}

// InPlaceUpdateHash returns a fingerprint of the fields that are changed while a machine runs: its identities and tags. identities and tags
// are those of the installation, to which the class's own are added. A machine is updated if the hash on its claim differs.
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

// dropEmpty removes objects without fields, at any depth.
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

// text returns JSON with sorted keys of maps.
func text(value any) []byte {
	out, err := json.Marshal(value)
	if err != nil {
		panic("write the fields of a node class: " + err.Error()) // the values are all plain
	}
	return out
}
