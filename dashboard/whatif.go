package dashboard

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"tenon.sh/engine"
)

const (
	whatIfPath     = "/whatif"
	whatIfDocument = "/json/whatif"
	// mostChoices is how many objects of one kind the list of the cluster's objects has.
	mostChoices = 200
	// mostDifferences is how many differences the page shows, mostLines how many rows of a table.
	mostDifferences = 10
	mostLines       = 50
)

func (s *server) whatIfScreen() *screen {
	return &screen{name: "What if", path: whatIfPath, patterns: []string{"GET " + whatIfPath}, fill: s.fillWhatIf}
}

// ChangedPool is the kind of manifests that contain a change already: their outcome is computed at once.
const ChangedPool = "NodePool, changed"

// A Manifest is an object of the cluster that a change may begin with.
type Manifest struct {
	Kind, Name string // namespace/name for kinds that have namespaces
	Text       func() (string, error)
}

// An Outcome is the result of changed objects. If there are mistakes, it has only the mistakes and the objects.
type Outcome struct {
	Objects  []Tried
	Mistakes []Mistake
	Notes    []string
	// Plan is the document of tenon plan --disrupt -o json for the cluster with the change.
	Plan []byte
	// Before and After are the figures of the plan without the change and with it.
	Before, After Figures
	Differences   []Difference
	// Disrupts is true once the removed nodes are known. Before that, neither plan contains them.
	Disrupts bool
	// Rest, unless nil, computes the next part of the outcome: first the removed nodes, then the bills of the complete change.
	Rest func() (*Outcome, error)
}

// Tried is an object of the text. Namespace is empty for kinds without namespaces. Replicas, unless nil, is the only changed field of a Deployment.
type Tried struct {
	Kind, Namespace, Name string
	Replicas              *int
}

// A Mistake is at a line of the text, from 1, and in a field; 0 and empty if they are unknown.
type Mistake struct {
	Line        int
	Field, Text string
}

// Figures sum up a plan. Money is in USD an hour.
type Figures struct {
	Now             float64 // the price of the nodes
	Launches        int
	LaunchesPerHour float64
	Bound           float64 // the least price of machines for the pods that wait; 0 without one
	Leaving         int     // nodes
	Saving          float64
	Refused         int         // pods
	Drifted         int         // nodes
	Kept            []KeptCount // the most first
	// Complete is the price of the nodes once all pods are where a plan for all of them places them, nil while it is unknown.
	Complete *float64
}

// A KeptCount is the number of nodes that stay for a reason.
type KeptCount struct {
	Code  string
	Count int
}

// After returns the price of the nodes after the plan, which is one pass within budgets.
func (f *Figures) After() float64 { return f.Now + f.LaunchesPerHour - f.Saving }

// A Difference between the two plans. Names are of objects in namespaces. Detail may contain such names; Text contains none.
type Difference struct {
	Text, Detail string
	Names        []string
}

// within returns the outcome for a reader who sees the objects of some namespaces only.
func (o *Outcome) within(sees func(namespace string) bool) (*Outcome, error) {
	out := &Outcome{Objects: o.Objects, Before: o.Before, After: o.After, Disrupts: o.Disrupts}
	for _, x := range o.Objects {
		if x.Namespace != "" && !sees(x.Namespace) {
			out.Mistakes = []Mistake{{Text: fmt.Sprintf("what is in namespace %s can be tried by those who may list pods there", x.Namespace)}}
			return &Outcome{Objects: o.Objects, Mistakes: out.Mistakes}, nil
		}
	}
	if out.Mistakes = o.Mistakes; len(o.Mistakes) > 0 {
		return out, nil
	}
	for _, note := range o.Notes {
		if !strings.Contains(note, "/") { // as all that is in a namespace is written
			out.Notes = append(out.Notes, note)
		}
	}
	seen := func(name string) bool {
		namespace, _, _ := strings.Cut(name, "/")
		return sees(namespace)
	}
	for _, d := range o.Differences {
		names := slices.DeleteFunc(slices.Clone(d.Names), func(name string) bool { return !seen(name) })
		out.Differences = append(out.Differences, Difference{Text: d.Text, Names: names})
	}
	var plan planDocument
	if err := json.Unmarshal(o.Plan, &plan); err != nil {
		return nil, fmt.Errorf("read the document of the plan: %w", err)
	}
	if o.Rest != nil {
		out.Rest = func() (*Outcome, error) {
			rest, err := o.Rest()
			if err != nil {
				return nil, err
			}
			return rest.within(sees)
		}
	}
	var err error
	out.Plan, err = json.MarshalIndent(plan.within(seen), "", "  ")
	return out, err
}

// whatIfData is the input of the template of the screen.
type whatIfData struct {
	From    string
	Kinds   []choices
	Text    string
	Changed bool   // the text differs from the cluster
	Problem string // why there is no answer
	*Outcome
	Headline    string
	Rows        []figureRow
	Differs     []Difference
	DiffersMore int
	Launches    []launchRow
	Leaving     []leavingRow
	Commands    string
}

// choices lists the objects of one kind from which a user can choose the beginning of a change.
type choices struct {
	Kind  string
	Names []start
	More  int
}

// start is an object that a change may begin with.
type start struct {
	Name, Value string
	Here        bool
}

type figureRow struct {
	Name, Before, After string
	Differs             bool
}

// Bill returns the change of the bill.
func (l *leavingRow) Bill() string {
	return cmp.Or(strings.TrimPrefix(engine.SavingWords(l.Saving), ", "), "-")
}

// leavingRow is a node that would go.
type leavingRow struct {
	Nodes  []string
	Reason string
	Saving float64
}

// content returns the content of the screen.
func (d *whatIfData) content() content {
	return content{title: "What if", shows: whatIfPage(d)}
}

func (s *server) fillWhatIf(r *http.Request, v *view) (content, error) {
	d := s.newWhatIfData(v, r.URL.Query().Get("from"))
	if d.From == "" {
		return d.content(), nil
	}
	for _, m := range v.Manifests {
		if m.Kind+"/"+m.Name == d.From {
			var err error
			d.Changed = m.Kind == ChangedPool
			d.Text, err = m.Text()
			return d.content(), err
		}
	}
	d.Problem = "There is no " + strings.Replace(d.From, "/", " ", 1) + " here."
	c := d.content()
	c.status = http.StatusNotFound
	return c, nil
}

func (s *server) newWhatIfData(v *view, from string) *whatIfData {
	d := &whatIfData{From: from, Outcome: &Outcome{}}
	for _, m := range v.Manifests {
		if len(d.Kinds) == 0 || d.Kinds[len(d.Kinds)-1].Kind != m.Kind {
			d.Kinds = append(d.Kinds, choices{Kind: m.Kind})
		}
		k := &d.Kinds[len(d.Kinds)-1]
		if len(k.Names) == mostChoices {
			k.More++
			continue
		}
		value := m.Kind + "/" + m.Name
		k.Names = append(k.Names, start{m.Name, value, value == from})
	}
	return d
}

// answer adds an outcome to the page.
func (d *whatIfData) answer(o *Outcome) error {
	d.Outcome, d.Commands = o, commands(o.Objects)
	if len(o.Mistakes) > 0 {
		d.Headline = count(len(o.Mistakes), "mistake") + ". Nothing was planned."
		return nil
	}
	d.Headline = o.headline()
	d.Rows = figureRows(&o.Before, &o.After, o.Disrupts)
	d.Differs = o.Differences[:min(len(o.Differences), mostDifferences)]
	d.DiffersMore = len(o.Differences) - len(d.Differs)
	var plan planDocument
	if err := json.Unmarshal(o.Plan, &plan); err != nil {
		return fmt.Errorf("read the document of the plan: %w", err)
	}
	for i := range plan.Launches[:min(len(plan.Launches), mostLines)] {
		row := newLaunchRow(&plan.Launches[i])
		row.PoolLink = "" // only the text may have this pool
		d.Launches = append(d.Launches, row)
	}
	for _, x := range plan.Disruptions[:min(len(plan.Disruptions), mostLines)] {
		d.Leaving = append(d.Leaving, leavingRow{x.Nodes, x.Reason, x.SavingPerHour})
	}
	return nil
}

// headline states the bill after the next pass and the bill of the complete change, as far as they are known.
func (o *Outcome) headline() string {
	b, a := &o.Before, &o.After
	if !o.Disrupts {
		return fmt.Sprintf("Machines for pods that wait take the bill from %s/h now to %s/h; without the change to %s/h. It is not known which nodes go.",
			dollars(b.Now), dollars(a.After()), dollars(b.After()))
	}
	words := fmt.Sprintf("The first pass, within budgets, takes the bill from %s/h now to %s/h; without the change to %s/h.", dollars(b.Now), dollars(a.After()), dollars(b.After()))
	same := len(o.Differences) == 0
	if b.Complete != nil && a.Complete != nil {
		words += fmt.Sprintf(" Once the change is complete, with all pods placed anew, the bill is %s/h; without the change it would be %s/h.", dollars(*a.Complete), dollars(*b.Complete))
		same = same && dollars(*a.Complete) == dollars(*b.Complete)
	}
	if same {
		words = "The plan is the same as without the change. " + words
	}
	return words
}

// figureRows returns the figures of the two plans beside each other.
func figureRows(before, after *Figures, whole bool) []figureRow {
	var out []figureRow
	row := func(name string, of func(*Figures) string) {
		b, a := of(before), of(after)
		out = append(out, figureRow{name, b, a, a != b})
	}
	row("Nodes cost now", func(f *Figures) string { return dollars(f.Now) + "/h" })
	row("Machines to start", func(f *Figures) string {
		if f.Launches == 0 {
			return "0"
		}
		return fmt.Sprintf("%d for %s/h", f.Launches, dollars(f.LaunchesPerHour))
	})
	if before.Bound > 0 || after.Bound > 0 {
		row("No plan starts them for less than", func(f *Figures) string {
			if f.Bound == 0 {
				return "-"
			}
			return dollars(f.Bound) + "/h"
		})
	}
	if whole {
		row("Nodes that go", goWords)
	}
	bill := func(usd float64) string { return dollars(usd) + "/h, " + monthly(usd) + " a month" }
	row("Nodes cost after the first pass", func(f *Figures) string { return bill(f.After()) })
	if before.Complete != nil && after.Complete != nil {
		row("Nodes cost once complete, with all pods placed anew", func(f *Figures) string { return bill(*f.Complete) })
	}
	row("Pods that nothing can run", func(f *Figures) string { return fmt.Sprint(f.Refused) })
	row("Nodes that have drifted", func(f *Figures) string { return fmt.Sprint(f.Drifted) })
	if whole {
		row("The others stay because", stayWords)
	}
	return out
}

func goWords(f *Figures) string {
	if f.Leaving == 0 {
		return "0"
	}
	return fmt.Sprint(f.Leaving) + engine.SavingWords(f.Saving)
}

func stayWords(f *Figures) string {
	var parts []string
	for _, k := range f.Kept {
		parts = append(parts, fmt.Sprintf("%d %s", k.Count, k.Code))
	}
	return cmp.Or(strings.Join(parts, ",\n"), "-")
}

// hint tells the reader the next step while there is no answer.
func (d *whatIfData) hint() string {
	switch {
	case d.Changed:
		return "“Plan it” shows here what comes of this change."
	case d.Text != "":
		return "Change the text, and the plan appears here."
	}
	return "Begin with an object of the cluster, or paste a NodePool, NodeOverlay or CapacityBuffer, or a Deployment with its replicas."
}

// words returns the difference with the names of its objects.
func (d *Difference) words() string {
	if len(d.Names) == 0 {
		return capital(d.Text)
	}
	return capital(d.Text) + ": " + strings.Join(d.Names, ", ")
}

// commands returns the commands that compare and apply the objects. A shell takes the names unquoted, because they have been checked.
func commands(objects []Tried) string {
	var out []string
	file := false
	for _, o := range objects {
		if o.Replicas == nil {
			file = true
			continue
		}
		out = append(out, fmt.Sprintf("kubectl --namespace %s scale deployment/%s --replicas=%d", o.Namespace, o.Name, *o.Replicas))
	}
	if file {
		out = append([]string{"kubectl diff -f changed.yaml", "kubectl apply -f changed.yaml"}, out...)
	}
	return strings.Join(out, "\n")
}
