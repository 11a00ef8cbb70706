package ondemand

import (
	"fmt"
	"strconv"
	"strings"
)

// Share is how many of an owner's pods are to run on demand at least: a percentage of them, rounded up, or a number. The zero value is none.
type Share struct {
	number  int
	percent bool
}

// ReadShare reads "30%" or "2". The error says what to write.
func ReadShare(text string) (Share, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	n, err := strconv.ParseUint(number, 10, 31)
	if err != nil || percent && n > 100 {
		return Share{}, fmt.Errorf(`a percentage from 0%% to 100%%, or a number of pods: "30%%" or "2"`)
	}
	return Share{int(n), percent}, nil
}

// Of is how many of so many pods that is.
func (s Share) Of(pods int) int {
	if s.percent {
		return (pods*s.number + 99) / 100
	}
	return min(s.number, pods)
}
