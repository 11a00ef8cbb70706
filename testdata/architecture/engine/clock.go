package engine

import (
	"context"
	"math/rand/v2"
	wall "time"
)

var calls int

func Provision(ctx context.Context) wall.Time {
	calls++
	_ = rand.Int()
	return wall.Now()
}

// A local variable may be called what it likes.
func Disrupt() int {
	calls := 1
	calls++
	return calls
}
