package constraints

import (
	"fmt"
	"strings"

	"tenon.sh/engine/kube"
)

// This file writes down what things are apart from their names, so that ties are broken by structure first: a cluster in
// which everything has another name gets the same plan under these names.

// Structure is what a pod with these constraints asks for.
func (w *PodConstraints) Structure() string {
	if w.shape != "" {
		return w.shape
	}
	var b strings.Builder
	b.WriteString(w.NodeConstraints.Text())
	for i := range w.Spreads {
		fmt.Fprintf(&b, "\nspread %s %t %t", w.Spreads[i].text(), w.Spreads[i].HonorAffinity, w.Spreads[i].HonorTaints)
	}
	for _, t := range w.Affinity {
		b.WriteString("\nnear " + t.Key)
	}
	for _, t := range w.Anti {
		b.WriteString("\napart " + t.Key)
	}
	for i := range w.Soft {
		s := &w.Soft[i]
		fmt.Fprintf(&b, "\nsoft %d %t %t", s.Weight, s.Tolerate, s.OfOthers)
		switch {
		case s.Near != nil:
			b.WriteString(" near " + s.Near.Key)
		case s.Apart != nil:
			b.WriteString(" apart " + s.Apart.Key)
		case s.Spread != nil:
			b.WriteString(" spread " + s.Spread.text())
		}
	}
	for _, p := range w.Ports {
		b.WriteString("\nport " + kube.PortText(p))
	}
	fmt.Fprintf(&b, "\n%d %d %d", len(w.Volumes.Attach), len(w.Volumes.Once), len(w.Volumes.Disks))
	if k := w.Devices.Kind(); k >= 0 {
		fmt.Fprintf(&b, "\ndevices %d", k)
	}
	w.shape = b.String()
	return w.shape
}

// Domains is the largest number of domains that one of the hard spreads asks for.
func (w *PodConstraints) Domains() int {
	most := 0
	for i := range w.Spreads {
		most = max(most, w.Spreads[i].MinDomains)
	}
	return most
}
