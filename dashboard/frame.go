package dashboard

import (
	"fmt"
	"html/template"
	"net/url"
	"time"
)

// A frame is what every page has around its screen.
type frame struct {
	Title, Cluster, Problem, Tag, Build string
	Every                               int64 // milliseconds between two looks, 0 for a picture that stays
	Screens                             []frameLink
	Read                                time.Time
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
	Data            any
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

// templates reads the template of a screen with everything that screens share.
func (s *server) templates(name string) (*template.Template, error) {
	return parseTemplates(s.assets, "templates/frame.html", "templates/parts.html", "templates/"+name)
}

func parseTemplates(a *assets, names ...string) (*template.Template, error) {
	t, err := template.New("").Funcs(template.FuncMap{
		"asset": a.address, "dollars": dollars, "price": price, "monthly": monthly, "percent": percent, "tenths": tenths, "gib": gib,
		"count": count, "age": ageWords, "bar": barWidth, "capital": capital,
		"exact":   func(t time.Time) string { return t.UTC().Format(exactTime) },
		"machine": func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"cents":   func(usd float64) string { return fmt.Sprintf("%.2f", usd) },
		"gap":     func(gap float64) string { return fmt.Sprintf("%.1f %%", 100*gap) },
		"deref":   func(x *float64) float64 { return *x },
		"why":     func(kind Kind, name string) string { return whyAddress(kind, name) },
	}).ParseFS(files, names...)
	if err != nil {
		return nil, fmt.Errorf("read the templates of the page: %w", err)
	}
	return t, nil
}

// whyAddress is where an object's story is told.
func whyAddress(kind Kind, name string) string {
	return (&url.URL{Path: "/why/" + string(kind) + "/" + name}).EscapedPath()
}
