package ondemand

import (
	"fmt"
	"strconv"
	"strings"
)

// Share is the least part of an owner's pods that must run on demand: a percentage, rounded up, or a number. The zero value is no pods.
type Share struct {
	number  int
	percent bool
}

// ReadShare parses "30%" or "2". The error describes a correct text.
func ReadShare(text string) (Share, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	n, err := strconv.ParseUint(number, 10, 31)
	if err != nil || percent && n > 100 {
		return Share{}, fmt.Errorf(`a percentage from 0%% to 100%%, or a number of pods: "30%%" or "2"`)
	}
	return Share{int(n), percent}, nil
}

// Of returns the number of pods of the share, for an owner with that many pods.
func (s Share) Of(pods int) int {
	if s.percent {
		return (pods*s.number + 99) / 100
	}
	return min(s.number, pods)
}
