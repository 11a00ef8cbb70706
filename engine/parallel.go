package engine

// parallel does the work, all parts at a time where the options allow several goroutines. No part may write what another one
// reads or writes, so that the result is the same however they are run.
func (opt Options) parallel(parts ...func()) {
	if opt.Threads <= 1 {
		for _, part := range parts {
			part()
		}
		return
	}
	done := make(chan struct{})
	for _, part := range parts {
		go func() {
			part()
			done <- struct{}{}
		}()
	}
	for range parts {
		<-done
	}
}
