package awsv1

import (
	"maps"
	"regexp"
	"slices"

	v1 "tenon.sh/api/v1"
)

// NodeClaimTagKey is the tag of a machine that names its NodeClaim.
const NodeClaimTagKey = v1.Group + "/nodeclaim"

var clusterTag = regexp.MustCompile(`^kubernetes\.io/cluster/[0-9A-Za-z][A-Za-z0-9\-_]*$`)

// RestrictedTags returns the sorted keys of the class's tags that only the controller may set. The API server refuses them too, but objects
// may be older than its rules.
func (c *EC2NodeClass) RestrictedTags() []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(c.Spec.Tags)) {
		if clusterTag.MatchString(key) || slices.Contains([]string{ClusterNameTagKey, v1.NodePoolLabelKey, NodeClaimTagKey, NodeClassLabelKey}, key) {
			out = append(out, key)
		}
	}
	return out
}
