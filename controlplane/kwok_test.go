package main

import (
	"sync"
	"testing"
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
	var workers sync.WaitGroup
	for range 100 {
		workers.Go(func() {
			<-begin
			if err := readAhead(t.Context(), stages); err != nil {
				t.Error(err)
			}
		})
	}
	close(begin)
	workers.Wait()
}
