package budget

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
)

// mostMoves bounds what is written on one pool: about 12 kB.
const mostMoves = 128

// ownerMove says that consolidation has moved so many pods of an owner in one minute.
type ownerMove struct {
	Owner string    `json:"owner"`
	Count int       `json:"count"`
	Last  time.Time `json:"last"`
}

// RecordMoves is the text of MovedPodsAnnotationKey on a pool of the disruption's, to be written before the disruption begins. Without
// it nobody can tell afterwards which pods have come in the place of others: pods of a new owner, and those of one that has just been
// scaled up, are as young.
func RecordMoves(pool *v1.NodePool, d engine.Disruption, now time.Time) string {
	moves := movesOn(pool, now)
	for _, owner := range slices.Sorted(maps.Keys(d.OwnersMoved)) {
		i := slices.IndexFunc(moves, func(m ownerMove) bool { return m.Owner == owner && now.Sub(m.Last).Abs() < time.Minute })
		if i < 0 {
			i, moves = len(moves), append(moves, ownerMove{Owner: owner, Last: now})
		}
		moves[i].Count += d.OwnersMoved[owner]
	}
	slices.SortStableFunc(moves, func(a, b ownerMove) int { return cmp.Or(b.Last.Compare(a.Last), strings.Compare(a.Owner, b.Owner)) })
	return inventory.AsJSON(moves[:min(len(moves), mostMoves)])
}

// movesOn reads what is written on the pool and still counts: nothing where it cannot be read.
func movesOn(pool *v1.NodePool, now time.Time) []ownerMove {
	var out []ownerMove
	if text := pool.Annotations[v1.MovedPodsAnnotationKey]; text == "" || json.Unmarshal([]byte(text), &out) != nil {
		return nil
	}
	return slices.DeleteFunc(out, func(m ownerMove) bool {
		age := now.Sub(m.Last)
		return m.Count < 1 || age >= moveHour || age < -moveHour // a clock may be wrong, but not for ever
	})
}

// recordedMoves is how many pods of each owner were moved within the last hour. It is cut if a pool has as many entries as it may have,
// so that earlier ones may be missing.
func recordedMoves(s *engine.Snapshot) (moves map[string]int, cut bool) {
	moves = map[string]int{}
	for _, pool := range s.NodePools {
		list := movesOn(pool, s.Now)
		cut = cut || len(list) >= mostMoves
		for _, m := range list {
			moves[m.Owner] += m.Count
		}
	}
	return moves, cut
}
