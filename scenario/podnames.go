package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine"
)

// PodNames returns a sorted list of pods for people. It omits the namespace default, and writes four or more pods with consecutive numbers as
// web-1..web-50.
func PodNames(pods []engine.PodID) string {
	var out []string
	for _, g := range GroupPods(pods) {
		if g.Count == 1 {
			out = append(out, g.First)
			continue
		}
		out = append(out, fmt.Sprintf("%s..%s", g.First, g.Last))
	}
	return strings.Join(out, " ")
}

// PodGroup is one pod, or several pods whose names differ only in consecutive numbers.
type PodGroup struct {
	First, Last string
	Count       int
}

// GroupPods groups four or more pods with consecutive numbers. Groups are sorted by name. The namespace default is omitted.
func GroupPods(pods []engine.PodID) []PodGroup {
	names := make([]numbered, 0, len(pods))
	for _, p := range pods {
		name := p.Name
		if p.Namespace != metav1.NamespaceDefault {
			name = p.String()
		}
		names = append(names, splitNumber(name))
	}
	slices.SortFunc(names, numbered.compare)
	var out []PodGroup
	for i := 0; i < len(names); {
		end := i + 1
		for end < len(names) && names[end].follows(names[end-1]) {
			end++
		}
		if end-i < 4 {
			end = i + 1
		}
		out = append(out, PodGroup{names[i].name, names[end-1].name, end - i})
		i = end
	}
	return out
}

// numbered is a name with the number at its end. The number is -1 if the name has none.
type numbered struct {
	name, stem string
	number     int
}

func splitNumber(name string) numbered {
	i := strings.LastIndexByte(name, '-')
	n, err := strconv.Atoi(name[i+1:])
	if i < 0 || err != nil || n < 0 || strconv.Itoa(n) != name[i+1:] {
		return numbered{name, name, -1}
	}
	return numbered{name, name[:i], n}
}

func (a numbered) compare(b numbered) int {
	return cmp.Or(cmp.Compare(a.stem, b.stem), cmp.Compare(a.number, b.number), cmp.Compare(a.name, b.name))
}

func (a numbered) follows(b numbered) bool {
	return a.number > 0 && a.stem == b.stem && a.number == b.number+1
}

func numberedName(name string, number int) string { return name + "-" + strconv.Itoa(number) }
