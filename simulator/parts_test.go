package simulator

import (
	"reflect"
	"strings"
	"testing"
)

// World lists its parts from the lowest to the highest. A part that kept a pointer to a higher part could call it.
func TestAPartKnowsOnlyThePartsBeforeIt(t *testing.T) {
	t.Parallel()
	world := reflect.TypeFor[World]()
	place := map[reflect.Type]int{reflect.PointerTo(world): world.NumField()}
	for i := range world.NumField() {
		place[world.Field(i).Type] = i
	}
	for i := range world.NumField() {
		seen := map[reflect.Type]bool{}
		var walk func(in reflect.Type, path string)
		walk = func(in reflect.Type, path string) {
			if j, part := place[in]; part && in != world.Field(i).Type {
				if j > i {
					t.Errorf("%s reaches %v, a part above it", path, in)
				}
				return
			}
			if seen[in] {
				return
			}
			seen[in] = true
			switch in.Kind() {
			case reflect.Pointer, reflect.Slice, reflect.Map:
				walk(in.Elem(), path)
			case reflect.Struct:
				if !strings.HasSuffix(in.PkgPath(), "/simulator") {
					return
				}
				for k := range in.NumField() {
					walk(in.Field(k).Type, path+"."+in.Field(k).Name)
				}
			}
		}
		walk(world.Field(i).Type, world.Field(i).Name)
	}
}
