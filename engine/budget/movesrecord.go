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

// mostMoves bounds the record on one pool: about 12 kB.
const mostMoves = 128

// ownerMove is the number of an owner's pods that consolidation moved in one minute.
type ownerMove struct {
	Owner string    `json:"owner"`
	Count int       `json:"count"`
	Last  time.Time `json:"last"`
}

// RecordMoves returns the text of MovedPodsAnnotationKey for a pool of the disruption, to be written before the disruption begins. The record is
// needed to tell pods that replaced moved pods from other young pods, because the pods of an owner that is new, or was just scaled up, are as
// young.
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

// movesOn returns the moves that are written on the pool and still count. It returns none if they cannot be read.
func movesOn(pool *v1.NodePool, now time.Time) []ownerMove {
	var out []ownerMove
	if text := pool.Annotations[v1.MovedPodsAnnotationKey]; text == "" || json.Unmarshal([]byte(text), &out) != nil {
		return nil
	}
	return slices.DeleteFunc(out, func(m ownerMove) bool {
		age := now.Sub(m.Last)
		return m.Count < 1 || age >= moveHour || age < -moveHour // a clock may be wrong by less than an hour
	})
}

// recordedMoves returns the number of moved pods of each owner within the last hour. cut means that a pool's record is full, so earlier moves
// may be missing.
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
