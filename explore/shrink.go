package explore

import "maps"

// mostTries bounds the number of runs of one Shrink.
const mostTries = 400

// Shrink searches a smaller run that breaks the same law: with fewer steps, fewer kinds of faults and fewer faults. It returns the smallest
// run with its story. It returns a run without a violation unchanged.
func (e *Explorer) Shrink(r Result) Result {
	if r.Violation == nil {
		return r
	}
	s := shrinker{e: e, best: r, law: r.Violation.Law}
	s.steps()
	s.kinds()
	s.single()
	s.steps()
	opt := s.best.Options
	opt.Traced = true
	return e.Run(r.Seed, opt)
}

// shrinker is the state of one Shrink.
type shrinker struct {
	e     *Explorer
	best  Result
	law   string
	tries int
}

// try keeps a run with changed options if it breaks the same law.
func (s *shrinker) try(change func(*Options)) bool {
	if s.tries >= mostTries {
		return false
	}
	s.tries++
	opt := s.best.Options
	opt.Without, opt.Skip = maps.Clone(opt.Without), maps.Clone(opt.Skip)
	if opt.Without == nil {
		opt.Without = map[string]bool{}
	}
	if opt.Skip == nil {
		opt.Skip = map[int]bool{}
	}
	change(&opt)
	r := s.e.Run(s.best.Seed, opt)
	if r.Violation == nil || r.Violation.Law != s.law {
		return false
	}
	s.best = r
	return true
}

// steps ends the faults earlier, after the last step that matters.
func (s *shrinker) steps() {
	s.try(func(o *Options) { o.Steps = max(1, min(s.best.Wrong, s.best.Violation.Step+1)) })
	for cut := s.best.Wrong / 2; cut > 0; cut /= 2 {
		for s.best.Wrong > cut && s.try(func(o *Options) { o.Steps = s.best.Wrong - cut }) {
		}
	}
}

// kinds tries runs without whole kinds of faults.
func (s *shrinker) kinds() {
	seen := map[string]bool{}
	for _, kind := range s.best.Kinds {
		if !seen[kind] {
			seen[kind] = true
			s.try(func(o *Options) { o.Without[kind] = true })
		}
	}
}

// single tries runs without single faults, the last ones first.
func (s *shrinker) single() {
	for again := true; again; {
		again = false
		happened := s.best.Happened
		for i := len(happened) - 1; i >= 0; i-- {
			if s.try(func(o *Options) { o.Skip[happened[i]] = true }) {
				again = true
				break
			}
		}
	}
}
