package v1

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"

	"github.com/mitchellh/hashstructure/v2"
)

// HashVersion names the way Hash works. Hashes of different versions cannot be
// compared.
const HashVersion = "v3"

// Hash is a fingerprint of the parts of the template whose change makes existing
// machines drift: labels, annotations, taints, node class, grace period and
// expiry. Order of lists and the spelling of durations do not matter. It is bit
// for bit the one earlier installations stored on their objects, so that taking
// over a cluster drifts nothing; type and field names are therefore part of it.
func (p *NodePool) Hash() string {
	sum, err := hashstructure.Hash(p.Spec.Template, hashstructure.FormatV2, &hashstructure.HashOptions{
		SlicesAsSets:    true,
		IgnoreZeroValue: true,
		ZeroNil:         true,
	})
	if err != nil {
		panic("hash of pool " + p.Name + ": " + err.Error()) // only a type that cannot be hashed does this
	}
	return strconv.FormatUint(sum, 10)
}

// ClassHashVersion names the way in which the hashes of node classes are made.
// Hashes of different versions cannot be compared: objects that carry another
// version, be it an older one of ours or one of Karpenter's own, are stamped
// anew and have not drifted.
const ClassHashVersion = "tenon-v1"

// Fingerprint is a decimal number that stands for all parts, in their order.
func Fingerprint(parts ...[]byte) string {
	h := sha256.New()
	for _, part := range parts {
		// The length keeps apart what would read the same in one piece.
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write(part)
	}
	return strconv.FormatUint(binary.BigEndian.Uint64(h.Sum(nil)), 10)
}
