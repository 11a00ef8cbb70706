package replacement

import (
	"testing"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/inventory"
)

func FuzzAnnotationsOfClaims(f *testing.F) {
	for _, text := range []string{"true", `{"count":1}`, `{"id":"a","claims":["general-1"],"replacements":["b"]}`} {
		f.Add(text)
	}
	f.Fuzz(func(_ *testing.T, text string) {
		claim := enginetest.LifeClaim()
		claim.Annotations = map[string]string{}
		for _, a := range v1.Annotations() {
			claim.Annotations[a.Key] = text
		}
		Backoffs(&engine.Snapshot{Now: enginetest.LifeStart, NodeClaims: []*v1.NodeClaim{claim}})
		inventory.MarkOf(claim)
	})
}
