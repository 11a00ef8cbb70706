package engine

import "tenon.sh/engine/parallel"

// parallel does the work, all parts at a time where the options allow several goroutines; see parallel.Run.
func (opt Options) parallel(parts ...func()) {
	if opt.Threads > 1 {
		parallel.Run(parts...)
		return
	}
	for _, part := range parts {
		part()
	}
}
