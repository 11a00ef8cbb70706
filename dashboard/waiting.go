package dashboard

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// mostClasses is how many classes of pods the page shows, because each class takes an explanation.
const mostClasses = 50

func waitingScreen() *screen {
	return &screen{name: "Waiting", path: "/waiting", patterns: []string{"GET /waiting"}, fill: fillWaiting}
}

// waitingData is the input of the template of the pods that wait.
type waitingData struct {
	Refused, Coming, Others []*podClass
	More                    int // classes that are not shown
	Launches                []launchRow
	Starting                []startingRow
	Total, Stuck            int
}

// A podClass is pods of one owner with the same requests and the same plan.
type podClass struct {
	Owner, Asks, Says string
	Fate              Fate
	Pods              []*Pod
	First             string   // the oldest pod
	Link              string   // to its story
	On                []onLink // the first few machines on which they are planned
	OnMore            int
	Since             time.Time
	Waited            string
	Reasons           []Reason
}

type onLink struct{ Name, Link string }

// launchRow is a machine that the plan would start.
type launchRow struct {
	Name, Pool, PoolLink, Machine string
	Price                         float64
	Pods                          int
}

// startingRow is a machine that is launched but has no node, or whose node is not ready yet.
type startingRow struct {
	*node
	Link, Machine, Because string
	Expected               int // pods that are to run on it
}

func fillWaiting(r *http.Request, v *view) (content, error) {
	d, err := newWaitingData(v)
	return content{title: "Waiting", shows: waitingPage(d)}, err
}

func newWaitingData(v *view) (*waitingData, error) {
	d := &waitingData{}
	classes := podClasses(v)
	expected := map[string]int{}
	for _, c := range classes {
		d.Total += len(c.Pods)
		if c.Fate == Refused {
			d.Stuck += len(c.Pods)
		}
		if c.Fate != Placed {
			continue
		}
		for _, p := range c.Pods {
			expected[p.Waiting.On]++
		}
	}
	if len(classes) > mostClasses {
		d.More, classes = len(classes)-mostClasses, classes[:mostClasses]
	}
	for _, c := range classes {
		if err := c.explain(v); err != nil {
			return nil, err
		}
		switch c.Fate {
		case Refused:
			d.Refused = append(d.Refused, c)
		case Starts, Placed:
			d.Coming = append(d.Coming, c)
		default:
			d.Others = append(d.Others, c)
		}
	}
	for i := range v.plan.Launches {
		d.Launches = append(d.Launches, newLaunchRow(&v.plan.Launches[i]))
	}
	for i := range v.nodes.Nodes {
		n := &v.nodes.Nodes[i]
		if n.State != "starting" {
			continue
		}
		row := startingRow{node: n, Link: nodeAddress(n), Machine: machineWords(n.InstanceType, n.Zone, n.CapacityType),
			Because: n.Disruption, Expected: expected[n.Node]}
		if n.Claim != n.Node {
			row.Expected += expected[n.Claim]
		}
		if n.Kept != nil {
			row.Because = n.Kept.Message
		}
		d.Starting = append(d.Starting, row)
	}
	slices.SortStableFunc(d.Starting, func(a, b startingRow) int { return cmp.Compare(b.age, a.age) })
	return d, nil
}

func machineWords(kind, zone, capacity string) string {
	return cmp.Or(strings.Join(strings.Fields(kind+" "+zone+" "+capacity), " "), "-")
}

func newLaunchRow(l *launch) launchRow {
	row := launchRow{Name: l.Name, Pool: l.NodePool, PoolLink: whyAddress(KindPool, l.NodePool), Machine: "-", Price: l.Price, Pods: len(l.Pods)}
	if len(l.Offerings) > 0 {
		o := l.Offerings[0]
		row.Machine = machineWords(o.InstanceType, o.Zone, o.CapacityType)
	}
	return row
}

// podClasses groups the pods that wait if they differ in their names only. Classes that nothing can run come first, then the largest
// classes.
func podClasses(v *view) []*podClass {
	type key struct {
		owner, asks, why string
		fate             Fate
	}
	index, hosts := map[key]*podClass{}, map[*podClass][]onLink{}
	var out []*podClass
	for i := range v.Pods {
		p := &v.Pods[i]
		w := p.Waiting
		if w == nil {
			continue
		}
		namespace, _, _ := strings.Cut(p.Name, "/")
		owner := cmp.Or(w.Owner, p.Name)
		k := key{namespace + "/" + owner, w.Asks, w.Why, w.Fate}
		c := index[k]
		if c == nil {
			c = &podClass{Owner: owner, Asks: w.Asks, Fate: w.Fate}
			if w.Owner != "" && namespace != "" {
				c.Owner += " in " + namespace
			}
			index[k] = c
			out = append(out, c)
		}
		c.Pods = append(c.Pods, p)
		if c.First == "" || w.Since.Before(c.Since) {
			c.First, c.Since = p.Name, w.Since
		}
		if w.On != "" {
			hosts[c] = append(hosts[c], onAddress(w))
		}
	}
	for _, c := range out {
		on := hosts[c]
		slices.SortFunc(on, func(a, b onLink) int { return compareNames(a.Name, b.Name) })
		on = slices.Compact(on)
		c.On, c.OnMore = on[:min(len(on), mostHosts)], max(0, len(on)-mostHosts)
		if c.First != "" {
			c.Link = whyAddress(KindPod, c.First)
		}
		c.Waited = ageWords(max(0, v.At.Sub(c.Since)))
	}
	slices.SortStableFunc(out, func(a, b *podClass) int {
		return cmp.Or(cmp.Compare(a.Fate, b.Fate), cmp.Compare(len(b.Pods), len(a.Pods)), cmp.Compare(a.First, b.First))
	})
	return out
}

// mostHosts is how many machines the page names for a class of pods.
const mostHosts = 6

func onAddress(w *Waiting) onLink {
	if w.Fate == Placed {
		return onLink{w.On, whyAddress(KindNode, w.On)}
	}
	return onLink{Name: w.On}
}

// Verb returns the beginning of the sentence that lists the machines on which the pods are planned.
func (c *podClass) Verb() string {
	if c.Fate == Starts {
		return "To be started for that:"
	}
	return "There is room on"
}

// meta returns the number of the pods, how long they have waited, and their requests.
func (c *podClass) meta() string {
	each, longest := "it asks", ""
	if len(c.Pods) > 1 {
		each, longest = "each asks", "up to "
	}
	words := count(len(c.Pods), "pod") + ", waiting for " + longest + c.Waited
	if c.Asks != "" {
		words += "; " + each + " for " + c.Asks
	}
	return words + "."
}

// others returns the end of the sentence that lists the machines on which the pods are planned.
func (c *podClass) others() string {
	if c.OnMore > 0 {
		return fmt.Sprintf(" and %d more.", c.OnMore)
	}
	return "."
}

// explain adds the story of the class's oldest pod.
func (c *podClass) explain(v *view) error {
	if c.First == "" { // its name is not shown
		return nil
	}
	e, err := v.Explain(KindPod, c.First)
	if err != nil {
		return err
	}
	c.Reasons = e.Reasons
	if c.Fate == Unplanned || c.Fate == Refused && len(c.Reasons) == 0 {
		c.Says = e.Story.Headline
	}
	return nil
}
