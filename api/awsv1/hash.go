package awsv1

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	v1 "tenon.sh/api/v1"
)

// HashVersion names the algorithm of Hash.
const HashVersion = v1.ClassHashVersion

// Hash returns a fingerprint of the fields of the class whose change makes its machines drift, except fields that are compared in another
// way. It omits selectors, because the selected objects are compared. It omits ipPrefixCount, and the field that names the family. It
// includes the bundle of certificate authorities, because that is part of the user data. The order of lists does not matter where it has no
// meaning.
func (c *EC2NodeClass) Hash(caBundle string) string {
	spec := c.Spec.DeepCopy()
	kubelet := canonical(spec.Kubelet)
	spec.SubnetSelectorTerms, spec.SecurityGroupSelectorTerms, spec.AMISelectorTerms = nil, nil, nil
	spec.CapacityReservationSelectorTerms, spec.IPPrefixCount, spec.AMIFamily, spec.Kubelet = nil, nil, nil, nil
	if spec.DetailedMonitoring != nil && !*spec.DetailedMonitoring {
		spec.DetailedMonitoring = nil // both mean that there is none
	}
	if !spec.Enclaves() {
		spec.EnclaveOptions = nil // likewise
	}
	slices.SortFunc(spec.BlockDeviceMappings, byText[BlockDeviceMapping])
	slices.SortFunc(spec.NetworkInterfaces, byText[NetworkInterface])
	return v1.Fingerprint(text(spec), []byte(c.Family()), []byte(caBundle), kubelet)
}

// canonical returns JSON with sorted keys. It returns other texts unchanged.
func canonical(raw *runtime.RawExtension) []byte {
	if raw == nil || len(raw.Raw) == 0 {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw.Raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return raw.Raw
	}
	if fields, ok := value.(map[string]any); ok && len(fields) == 0 {
		return nil
	}
	return text(value)
}

func text(value any) []byte {
	out, err := json.Marshal(value)
	if err != nil {
		panic("write the fields of a node class: " + err.Error()) // the values are all plain
	}
	return out
}

func byText[T any](a, b T) int { return cmp.Compare(string(text(a)), string(text(b))) }
