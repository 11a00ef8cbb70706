package provisioning

// answer is the plan of a problem's solution, with names, prices and reasons.
type answer struct {
	*Problem
	first map[int]*podClass // the first class of each set; nil until it is needed
}
