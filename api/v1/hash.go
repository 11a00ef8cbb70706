package v1

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"

	"github.com/mitchellh/hashstructure/v2"
)

// HashVersion names the algorithm of Hash. Hashes of different versions cannot be compared.
const HashVersion = "v3"

// Hash returns a fingerprint of the parts of the template whose change makes existing machines drift: labels, annotations, taints, node
// class, grace period and expiry. The order of lists and the spelling of durations do not matter. The fingerprint equals, bit for bit, the
// one that earlier installations stored on their objects, so that nothing drifts when Tenon takes over a cluster. So the names of types and
// fields are part of it.
func (p *NodePool) Hash() string {
	sum, err := hashstructure.Hash(p.Spec.Template, hashstructure.FormatV2, &hashstructure.HashOptions{
		SlicesAsSets:    true,
		IgnoreZeroValue: true,
		ZeroNil:         true,
	})
	if err != nil {
		panic("hash of pool " + p.Name + ": " + err.Error()) // only possible for a type that cannot be hashed
	}
	return strconv.FormatUint(sum, 10)
}

// ClassHashVersion names the algorithm of node classes' hashes. Hashes of different versions cannot be compared. Objects with another
// version, an older one of Tenon or one of Karpenter, get a new hash and have not drifted.
const ClassHashVersion = "tenon-v1"

// Fingerprint returns a decimal number computed from all parts in their order.
func Fingerprint(parts ...[]byte) string {
	h := sha256.New()
	for _, part := range parts {
		// The length distinguishes parts whose concatenations are equal.
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write(part)
	}
	return strconv.FormatUint(binary.BigEndian.Uint64(h.Sum(nil)), 10)
}
