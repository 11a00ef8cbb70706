package awsv1

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime"
)

// HashVersion names the way Hash works. Hashes of different versions cannot be compared: objects that carry another
// version, be it an older one of ours or one of Karpenter's own, are stamped anew and have not drifted.
const HashVersion = "tenon-v1"

// Hash is a fingerprint of everything in the class whose change makes its machines drift, and is not looked at by itself:
// selectors are not in it, because what they find is compared; nor is ipPrefixCount, nor how the family was told. The
// bundle of certificate authorities is part of it because it is written into the user data. Order does not matter where
// it means nothing.
func (c *EC2NodeClass) Hash(caBundle string) string {
	spec := c.Spec.DeepCopy()
	kubelet := canonical(spec.Kubelet)
	spec.SubnetSelectorTerms, spec.SecurityGroupSelectorTerms, spec.AMISelectorTerms = nil, nil, nil
	spec.CapacityReservationSelectorTerms, spec.IPPrefixCount, spec.AMIFamily, spec.Kubelet = nil, nil, nil, nil
	if spec.DetailedMonitoring != nil && !*spec.DetailedMonitoring {
		spec.DetailedMonitoring = nil // both mean that there is none
	}
	slices.SortFunc(spec.BlockDeviceMappings, byText[BlockDeviceMapping])
	slices.SortFunc(spec.NetworkInterfaces, byText[NetworkInterface])
	h := sha256.New()
	for _, part := range [][]byte{text(spec), []byte(c.Family()), []byte(caBundle), kubelet} {
		// The length keeps apart what would read the same in one piece.
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write(part)
	}
	return strconv.FormatUint(binary.BigEndian.Uint64(h.Sum(nil)), 10)
}

// canonical writes JSON with its keys in order. What is not JSON stands for itself.
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
		panic("write the fields of a node class: " + err.Error()) // they are all plain values
	}
	return out
}

func byText[T any](a, b T) int { return cmp.Compare(string(text(a)), string(text(b))) }
