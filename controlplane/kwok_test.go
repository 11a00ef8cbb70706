package main

import (
	"testing"

	"golang.org/x/sync/errgroup"
)

// Whatever KWOK's workers read at the same time when they begin, none of them ends the process.
func TestWorkersMayReadTheStagesAtTheSameTime(t *testing.T) {
	stages, err := loadStages()
	if err != nil {
		t.Fatal(err)
	}
	if err := readAhead(t.Context(), stages); err != nil {
		t.Fatal(err)
	}
	begin := make(chan struct{})
	var workers errgroup.Group
	for range 100 {
		workers.Go(func() error {
			<-begin
			return readAhead(t.Context(), stages)
		})
	}
	close(begin)
	if err := workers.Wait(); err != nil {
		t.Error(err)
	}
}
