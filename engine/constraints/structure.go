package constraints

import (
	"fmt"
	"strings"

	"tenon.sh/engine/kube"
)

// This file describes objects without their names, because ties are decided by structure first. So if every object of a cluster had another name, the
// plan would differ only in names.

// Structure describes the constraints without names.
func (c *PodConstraints) Structure() string {
	if c.shape != "" {
		return c.shape
	}
	var b strings.Builder
	b.WriteString(c.NodeConstraints.Text())
	for i := range c.Spreads {
		fmt.Fprintf(&b, "\nspread %s %t %t", c.Spreads[i].text(), c.Spreads[i].HonorAffinity, c.Spreads[i].HonorTaints)
	}
	for _, t := range c.Affinity {
		b.WriteString("\nnear " + t.Key)
	}
	for _, t := range c.Anti {
		b.WriteString("\napart " + t.Key)
	}
	for i := range c.Soft {
		s := &c.Soft[i]
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
	for _, p := range c.Ports {
		b.WriteString("\nport " + kube.PortText(p))
	}
	fmt.Fprintf(&b, "\n%d %d %d", len(c.Volumes.Attach), len(c.Volumes.Once), len(c.Volumes.Disks))
	if k := c.Devices.Kind(); k >= 0 {
		fmt.Fprintf(&b, "\ndevices %d", k)
	}
	c.shape = b.String()
	return c.shape
}

// Domains returns the largest minDomains of the hard spreads.
func (c *PodConstraints) Domains() int {
	most := 0
	for i := range c.Spreads {
		most = max(most, c.Spreads[i].MinDomains)
	}
	return most
}
