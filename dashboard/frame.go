package dashboard

import (
	"fmt"
	"net/url"
	"time"

	"tenon.sh/engine"
)

// A frame is the part of every page around its screen.
type frame struct {
	Title, Cluster, Problem, Tag, Build string
	Every                               int64 // milliseconds between two looks, 0 for a picture that stays
	Screens                             []frameLink
	Read, Now                           time.Time
	Stale                               time.Duration // the age of a stale picture; 0 if the picture is not stale
	Notes                               []string

	Price           float64
	Nodes, Unpriced int
	CPU, Memory     Share
	Waiting         int
	Launches        int
	LaunchPrice     float64
	Bound, Gap      *float64
	Leaving         int
	Saving          float64
	assets          *assets
}

type frameLink struct {
	Name, Path string
	Here       bool
}

// newFrame sums up the cluster.
func newFrame(v *view) *frame {
	f := &frame{
		Cluster: v.Cluster, Read: v.At, Notes: v.Notes, Price: v.nodes.PricePerHour, Nodes: len(v.nodes.Nodes), Unpriced: v.nodes.Unpriced,
		CPU: v.nodes.CPU, Memory: v.nodes.Memory, Waiting: v.nodes.Waiting,
		Launches: len(v.plan.Launches), LaunchPrice: v.plan.Cost.LaunchesPerHour, Bound: v.plan.Cost.Bound, Gap: v.plan.Cost.Gap,
	}
	for _, d := range v.plan.Disruptions {
		f.Leaving += len(d.Nodes)
		f.Saving += d.SavingPerHour
	}
	return f
}

// asOf returns the time of the picture, with the date unless it is today.
func (f *frame) asOf() string {
	if read, now := f.Read.UTC(), f.Now.UTC(); read.YearDay() == now.YearDay() && read.Year() == now.Year() {
		return read.Format("15:04:05 UTC")
	}
	return exact(f.Read)
}

// stale says how old the picture is.
func (f *frame) stale() string {
	return fmt.Sprintf("All of this is of %s, %s ago. It is being read anew.", f.asOf(), ageWords(f.Stale))
}

// tag returns the number beside the name of a screen. It returns 0 if there is none.
func (f *frame) tag(s frameLink) int {
	if s.Name != "Waiting" {
		return 0
	}
	return f.Waiting
}

// month returns the bill of a month at the present price, as far as prices are known.
func (f *frame) month() string {
	words := monthly(f.Price) + " a month"
	if f.Unpriced > 0 {
		words += ", " + count(f.Unpriced, "node") + " of unknown price"
	}
	return words
}

// leave returns the words after the number of nodes that go, with the change of the bill.
func (f *frame) leave() string {
	if f.Leaving == 1 {
		return "node goes" + engine.SavingWords(f.Saving)
	}
	return "nodes go" + engine.SavingWords(f.Saving)
}

// start returns the words after the number of machines that have to start, with their price and its distance from the bound.
func (f *frame) start() string {
	words := noun(f.Launches, "machine") + " to start"
	if f.Launches == 0 {
		return words
	}
	words += " for " + dollars(f.LaunchPrice) + "/h"
	if f.Bound != nil {
		words += "; no plan costs less than " + dollars(*f.Bound)
	}
	if f.Gap != nil {
		words += " (gap " + gap(*f.Gap) + ")"
	}
	return words
}

// whyAddress returns the address of an object's story.
func whyAddress(kind Kind, name string) string {
	return (&url.URL{Path: "/why/" + string(kind) + "/" + name}).EscapedPath()
}
