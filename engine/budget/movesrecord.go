package budget

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
)

// mostRecordedOwners bounds what is written on one pool.
const mostRecordedOwners = 64

// recordedOwner is how many pods of an owner consolidation has moved while its first pods came, and when it last did.
type recordedOwner struct {
	Owner string    `json:"owner"`
	Count int       `json:"count"`
	Last  time.Time `json:"last"`
}

// RecordMoves is what to write on a pool of the disruption's before it begins. What consolidation moves is counted by the pods that
// come in the place of others, and those of a new owner look like its first ones.
func RecordMoves(pool *v1.NodePool, d engine.Disruption, now time.Time) string {
	owners := recordedOwners(pool, now)
	for owner, n := range d.NewOwners {
		i := slices.IndexFunc(owners, func(o recordedOwner) bool { return o.Owner == owner })
		if i < 0 {
			i, owners = len(owners), append(owners, recordedOwner{Owner: owner})
		}
		owners[i].Count, owners[i].Last = owners[i].Count+n, now
	}
	slices.SortFunc(owners, func(a, b recordedOwner) int {
		return cmp.Or(b.Last.Compare(a.Last), strings.Compare(a.Owner, b.Owner))
	})
	return inventory.AsJSON(owners[:min(len(owners), mostRecordedOwners)])
}

// recordedOwners reads what is written on the pool and still counts: nothing where it cannot be read.
func recordedOwners(pool *v1.NodePool, now time.Time) []recordedOwner {
	var out []recordedOwner
	if text := pool.Annotations[v1.MovedPodsAnnotationKey]; text == "" || json.Unmarshal([]byte(text), &out) != nil {
		return nil
	}
	return slices.DeleteFunc(out, func(o recordedOwner) bool {
		age := now.Sub(o.Last)
		return o.Count < 1 || age >= moveHour || age < -moveHour // a clock may be wrong, but not for ever
	})
}

// recordedMoves is how many pods of each owner were moved within the last hour, as far as pools remember.
func recordedMoves(s *engine.Snapshot) map[string]int {
	out := map[string]int{}
	for _, pool := range s.NodePools {
		for _, o := range recordedOwners(pool, s.Now) {
			out[o.Owner] += o.Count
		}
	}
	return out
}
