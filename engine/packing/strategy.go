package packing

// strategy is one way to find cheaper machines for the pods of a supply's open bins. It gets the open bins that the strategies before it have found,
// and returns them or better ones. done is true if no other strategy can find better ones.
type strategy struct {
	name string
	find func(s *search, sup *supply, bins []*openBin) (better []*openBin, done bool)
}

// allStrategies returns the strategies in the order in which they are tried. TestAblation measures how much dearer plans are without each of them.
func allStrategies() []strategy {
	return []strategy{
		{"cover", (*search).cover},
		{"columns", func(s *search, sup *supply, bins []*openBin) ([]*openBin, bool) { return s.columns(sup, bins), false }},
		{"close", func(s *search, sup *supply, bins []*openBin) ([]*openBin, bool) { return s.closeBins(sup, bins), false }},
		{"local search", func(s *search, sup *supply, bins []*openBin) ([]*openBin, bool) { return s.improve(sup, bins), false }},
	}
}

// cheapen finds cheaper machines for the pods of the open bins.
func (s *search) cheapen(sup *supply, bins []*openBin) []*openBin {
	if len(bins) == 0 {
		return bins
	}
	s.market.effort = s.p.Effort // the effort for the first machines is not charged
	strategies := s.p.strategies
	if strategies == nil {
		strategies = allStrategies()
	}
	for _, st := range strategies {
		better, done := st.find(s, sup, bins)
		if done {
			return better
		}
		bins = better
	}
	return bins
}
