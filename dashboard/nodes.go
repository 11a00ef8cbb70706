package dashboard

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// rowsPerPage is the number of nodes in one page of the table. A browser needs a second for five thousand.
const rowsPerPage = 100

func nodesScreen() *screen {
	return &screen{name: "Nodes", path: "/", patterns: []string{"GET /{$}"}, fill: fillNodes}
}

// nodesQuery is the query of the nodes' address. It decides everything on the screen.
type nodesQuery struct {
	by, then, filter, sort, fill string
	page                         int
}

const noKey = "-" // for the second key: none

func defaultNodesQuery() nodesQuery {
	return nodesQuery{by: "pool", then: "type", sort: "pool", fill: "most", page: 1}
}

func readNodesQuery(values url.Values) nodesQuery {
	q := defaultNodesQuery()
	choose := func(to *string, name string, from []string) {
		if v := values.Get(name); slices.Contains(from, v) {
			*to = v
		}
	}
	choose(&q.by, "by", groupKeys())
	choose(&q.then, "then", append(groupKeys(), noKey))
	choose(&q.sort, "sort", nodeOrders())
	choose(&q.fill, "fill", []string{"most", "cpu", "memory"})
	q.filter = strings.TrimSpace(values.Get("filter"))
	if n, err := strconv.Atoi(values.Get("page")); err == nil && n > 0 {
		q.page = n
	}
	if q.then == q.by {
		q.then = noKey
	}
	return q
}

// values returns the query of the address, without the default values.
func (q nodesQuery) values() url.Values {
	out, usual := url.Values{}, defaultNodesQuery()
	for _, x := range []struct{ name, value, usual string }{
		{"by", q.by, usual.by}, {"then", q.then, usual.then}, {"filter", q.filter, ""}, {"sort", q.sort, usual.sort},
		{"fill", q.fill, usual.fill}, {"page", strconv.Itoa(q.page), "1"},
	} {
		if x.value != x.usual {
			out.Set(x.name, x.value)
		}
	}
	return out
}

func (q nodesQuery) address() string {
	return (&url.URL{Path: "/", RawQuery: q.values().Encode()}).String()
}

// nodesData is the input of the template of the nodes.
type nodesData struct {
	query       nodesQuery
	Filter      string
	FilterError *FilterError
	Choices     []choice
	Groups      []*group
	Flat        []*group // the groups with their subgroups, in order
	Shown       group    // everything that the filter leaves
	All         int      // nodes without the filter
	Rows        []nodeRow
	Columns     []column
	Pages       pages
	Export      bool
}

// A choice is a setting of the screen: a list to choose from.
type choice struct {
	Label, Name string
	Values      []choiceValue
}

type choiceValue struct {
	Value, Label string
	Chosen       bool
}

// A column is a heading of the table; its address sorts by it.
type column struct {
	Name, Address string
	Number, Here  bool
}

type nodeRow struct {
	*node
	Link    string
	Because string
	Code    string
}

// pages determines which rows are shown.
type pages struct {
	First, Last, Of  int
	Previous, Next   string
	Number, LastPage int
}

func fillNodes(r *http.Request, v *view) (content, error) {
	d, status := newNodesData(readNodesQuery(r.URL.Query()), v, rowsPerPage)
	return content{title: "Nodes", shows: nodesPage(d), status: status}, nil
}

func newNodesData(q nodesQuery, v *view, perPage int) (*nodesData, int) {
	d := &nodesData{query: q, Filter: q.filter, All: len(v.nodes.Nodes), Choices: q.choices(), Columns: q.columns()}
	f, err := parseFilter(q.filter)
	if errors.As(err, &d.FilterError) {
		return d, http.StatusBadRequest
	}
	nodes := f.matches(v)
	orderNodes(nodes, q.sort)
	for _, n := range nodes {
		d.Shown.add(n)
	}
	keys := []string{q.by}
	if q.then != noKey {
		keys = append(keys, q.then)
	}
	d.Groups = groupNodes(nodes, keys, d.Shown.Price, 0)
	for _, g := range d.Groups {
		d.Flat = append(append(d.Flat, g), g.Groups...)
	}
	d.addRows(nodes, perPage)
	return d, http.StatusOK
}

// addRows fills in one page of the table.
func (d *nodesData) addRows(nodes []*node, perPage int) {
	last := max(1, (len(nodes)+perPage-1)/perPage)
	number := min(d.query.page, last)
	first, end := (number-1)*perPage, min(number*perPage, len(nodes))
	d.Pages = pages{First: first + 1, Last: end, Of: len(nodes), Number: number, LastPage: last}
	at := func(page int) string {
		q := d.query
		q.page = page
		return q.address()
	}
	if number > 1 {
		d.Pages.Previous = at(number - 1)
	}
	if number < last {
		d.Pages.Next = at(number + 1)
	}
	for _, n := range nodes[first:end] {
		row := nodeRow{node: n, Link: nodeAddress(n), Because: n.Disruption}
		if n.Kept != nil {
			row.Because, row.Code = n.Kept.Message, n.Kept.Code
		}
		d.Rows = append(d.Rows, row)
	}
}

// nodeAddress returns the address of the story of a node, or of a claim without a node.
func nodeAddress(n *node) string {
	if n.Claim == n.Node && n.Claim != "" && n.State != "ready" {
		return whyAddress(KindClaim, n.Claim)
	}
	return whyAddress(KindNode, n.Node)
}

func (q nodesQuery) choices() []choice {
	list := func(label, name, chosen string, values ...[2]string) choice {
		c := choice{Label: label, Name: name}
		for _, v := range values {
			c.Values = append(c.Values, choiceValue{v[0], v[1], v[0] == chosen})
		}
		return c
	}
	var keys [][2]string
	for _, k := range groupKeys() {
		keys = append(keys, [2]string{k, k})
	}
	return []choice{
		list("Group by", "by", q.by, keys...),
		list("then", "then", q.then, append(keys, [2]string{noKey, "nothing"})...),
		list("Tiles filled by", "fill", q.fill, [2]string{"most", "larger request"}, [2]string{"cpu", "CPU request"}, [2]string{"memory", "memory request"}),
		list("Sort by", "sort", q.sort, [2]string{"pool", "pool"}, [2]string{"name", "name"}, [2]string{"price", "price, dearest"},
			[2]string{"cpu", "CPU, emptiest"}, [2]string{"memory", "memory, emptiest"}, [2]string{"age", "age, oldest"}),
	}
}

func (q nodesQuery) columns() []column {
	var out []column
	for _, c := range []struct {
		name, sort string
		number     bool
	}{{"Node", "name", false}, {"Pool", "pool", false}, {"Machine", "", false}, {"CPU", "cpu", false}, {"Memory", "memory", false}, {"Pods", "", true},
		{"USD/hour", "price", true}, {"Age", "age", true}, {"State", "", false}, {"Because", "", false}} {
		x := column{Name: c.name, Number: c.number}
		if c.sort != "" {
			sorted := q
			sorted.sort, sorted.page = c.sort, 1
			x.Address, x.Here = sorted.address(), q.sort == c.sort
		}
		out = append(out, x)
	}
	return out
}

// groupLink returns the link to the nodes of a group, except in the exported file.
func (d *nodesData) groupLink(g *group) string {
	if d.Export {
		return ""
	}
	return d.narrowed(g.Filter())
}

// all returns the name of the last row of the groups.
func (d *nodesData) all() string {
	if d.Filter != "" {
		return "All that the filter leaves"
	}
	return "All"
}

// poolLink returns the link to the story of a NodePool, or "" if there is no NodePool, or no link beside it.
func poolLink(beside, pool string) string {
	if beside == "" || pool == "" {
		return ""
	}
	return whyAddress(KindPool, pool)
}

func (d *nodesData) narrowed(term string) string {
	q := d.query
	q.filter, q.page = strings.TrimSpace(q.filter+" "+term), 1
	return q.address()
}

func nodeOrders() []string { return []string{"pool", "name", "price", "cpu", "memory", "age"} }

// orderNodes sorts as tenon nodes does. The document is in order of pools.
func orderNodes(nodes []*node, by string) {
	if by == "pool" {
		return
	}
	slices.SortStableFunc(nodes, func(a, b *node) int {
		first := 0
		switch by {
		case "price":
			first = cmp.Compare(b.Price(), a.Price())
		case "cpu":
			first = cmp.Compare(a.CPU.Of(), b.CPU.Of())
		case "memory":
			first = cmp.Compare(a.Memory.Of(), b.Memory.Of())
		case "age":
			first = cmp.Compare(b.age, a.age)
		}
		return cmp.Or(first, compareNames(a.Node, b.Node))
	})
}

// compareNames puts web-2 before web-10.
func compareNames(a, b string) int {
	const digits = "0123456789"
	return cmp.Or(cmp.Compare(strings.TrimRight(a, digits), strings.TrimRight(b, digits)), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}
