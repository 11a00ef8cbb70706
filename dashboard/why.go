package dashboard

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

func whyScreen() *screen {
	return &screen{name: "Why", path: "/why", patterns: []string{"GET /why"}, fill: fillWhy}
}

// storyScreen tells the story of one object.
func storyScreen() *screen {
	return &screen{path: "/why", patterns: []string{"GET /why/{kind}/{name...}"}, fill: fillStory}
}

// missingScreen is shown at addresses that do not exist.
func missingScreen() *screen {
	return &screen{patterns: []string{"GET /"}, fill: func(r *http.Request, _ *view) (content, error) {
		return content{title: "Not here", shows: missingPage(), status: http.StatusNotFound}, nil
	}}
}

// whyData is the objects that can be explained: the results of a search, and all NodePools.
type whyData struct {
	Search string
	Found  []found
	More   int
	Pools  []found
}

// found is an object with the address of its story.
type found struct {
	Kind       Kind
	Name, Link string
	Note       string
}

// mostFound is how many objects a search lists.
const mostFound = 50

func fillWhy(r *http.Request, v *view) (content, error) {
	d := &whyData{Search: strings.TrimSpace(r.URL.Query().Get("q"))}
	for _, name := range v.NodePools {
		d.Pools = append(d.Pools, found{KindPool, name, whyAddress(KindPool, name), poolNote(v, name)})
	}
	if d.Search != "" {
		d.search(v)
	}
	return content{title: "Why", shows: whyPage(d)}, nil
}

func poolNote(v *view, name string) string {
	var g group
	for i := range v.nodes.Nodes {
		if n := &v.nodes.Nodes[i]; n.NodePool == name {
			g.add(n)
		}
	}
	return fmt.Sprintf("%s, %s/h", count(len(g.Nodes), "node"), dollars(g.Price))
}

// search finds, by a part of the name, NodePools, nodes, claims, pods, PodGroups and ProvisioningRequests. An exact name comes first.
func (d *whyData) search(v *view) {
	text := strings.ToLower(d.Search)
	var all []found
	add := func(kind Kind, name, note string) {
		if name != "" && contains(name, text) {
			all = append(all, found{kind, name, whyAddress(kind, name), note})
		}
	}
	for _, name := range v.NodePools {
		add(KindPool, name, "")
	}
	for i := range v.nodes.Nodes {
		n := &v.nodes.Nodes[i]
		if n.Node != n.Claim {
			add(KindNode, n.Node, n.Standing())
		}
		add(KindClaim, n.Claim, n.Standing())
	}
	for i := range v.Pods {
		p := &v.Pods[i]
		note := "waits"
		switch {
		case p.Node != "":
			note = "on " + p.Node
		case p.Waiting == nil:
			note = ""
		}
		add(KindPod, p.Name, note)
	}
	for _, x := range v.Together {
		add(x.Kind, x.Name, "")
	}
	exact := func(f found) bool { return f.Name == d.Search || strings.HasSuffix(f.Name, "/"+d.Search) }
	slices.SortStableFunc(all, func(a, b found) int {
		switch {
		case exact(a) && !exact(b):
			return -1
		case exact(b) && !exact(a):
			return 1
		}
		return 0
	})
	if len(all) > mostFound {
		d.More, all = len(all)-mostFound, all[:mostFound]
	}
	d.Found = all
}

// storyData is a story with links to the objects that it names.
type storyData struct {
	Kind    Kind
	Story   Story
	Problem string // why there is no story
	JSON    string
	Export  bool
	// Decision is true if the story is about a decision in the journal: its tables name nodes, claims and NodePools.
	Decision bool
}

func explained(v *view, r *http.Request) (*Explanation, error) {
	kind, name := Kind(r.PathValue("kind")), r.PathValue("name")
	if !slices.Contains([]Kind{KindPod, KindNode, KindClaim, KindPool, KindGroup, KindRequest}, kind) {
		return nil, fmt.Errorf("%s cannot be explained: it is pod, node, claim, pool, podgroup or provisioningrequest", plain(string(kind)))
	}
	return v.Explain(kind, name)
}

func fillStory(r *http.Request, v *view) (content, error) {
	d := &storyData{Kind: Kind(r.PathValue("kind"))}
	e, err := explained(v, r)
	if err != nil {
		d.Problem = capital(err.Error()) + "."
		return content{title: "Why", shows: storyPage(d), status: http.StatusNotFound}, nil
	}
	d.Story, d.JSON = e.Story, "/json/explain/"+strings.TrimPrefix(whyAddress(d.Kind, r.PathValue("name")), "/why/")
	return content{title: e.Story.Kind + " " + e.Story.Name, shows: storyPage(d)}, nil
}

func explainDocument(v *view, r *http.Request) ([]byte, error) {
	e, err := explained(v, r)
	if err != nil {
		return nil, err
	}
	return e.Document, nil
}

// Link returns the address of the story of a fact's object. It returns "" if the fact names no object.
func (d *storyData) Link(f Fact) string {
	kind, ok := map[string]Kind{"pool": KindPool, "node": KindNode, "nodeclaim": KindClaim}[f.Name]
	if !ok || f.Text == "-" || d.Export {
		return ""
	}
	return whyAddress(kind, f.Text)
}

// CellLink returns the address of the story of a cell's object. It returns "" if there is none. The first column names pods if its heading says so.
func (d *storyData) CellLink(rows [][]string, column int, cell string) string {
	if d.Export || cell == "-" {
		return ""
	}
	switch kind := map[string]Kind{"NODE": KindNode, "CLAIM": KindClaim, "POOL": KindPool}[rows[0][column]]; {
	case column == 0 && rows[0][0] == "POD":
		return whyAddress(KindPod, cell)
	case d.Decision && kind != "":
		return whyAddress(kind, cell)
	}
	return ""
}

// named matches the words by which sentences name a PodGroup or a ProvisioningRequest.
var named = regexp.MustCompile(`\b([pP]od ?[gG]roup|ProvisioningRequest) ([a-z0-9][-a-z0-9]*/[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?)`)

// A piece is a part of a sentence, with a link to the object that it names, if any.
type piece struct{ Text, Link string }

// pieces divides a sentence, so the names of PodGroups and ProvisioningRequests link to their stories.
func pieces(sentence string, links bool) (out []piece) {
	if links {
		from := 0
		for _, at := range named.FindAllStringSubmatchIndex(sentence, -1) {
			kind := KindGroup
			if sentence[at[2]:at[3]] == "ProvisioningRequest" {
				kind = KindRequest
			}
			name := sentence[at[4]:at[5]]
			out = append(out, piece{Text: sentence[from:at[4]]}, piece{name, whyAddress(kind, name)})
			from = at[5]
		}
		sentence = sentence[from:]
	}
	return append(out, piece{Text: sentence})
}

// IsNumber reports whether a column holds amounts.
func (d *storyData) IsNumber(rows [][]string, column int) bool {
	return column > 0 && slices.Contains([]string{"RESOURCE", "SETTING", "CAUSE"}, rows[0][0]) && rows[0][column] != "BEATEN BY" || rows[0][column] == "USD/HOUR" || rows[0][column] == "COUNT"
}
