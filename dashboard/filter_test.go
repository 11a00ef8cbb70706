package dashboard_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tenon.sh/dashboard"
)

// few returns a picture of five nodes that differ in all properties.
func few() *dashboard.Picture {
	p := picture(0)
	at := func(age time.Duration) time.Time { return p.At.Add(-age) }
	kept := map[string]string{"code": "NotEmpty", "message": "2 pods would have to move"}
	p.Nodes = document(map[string]any{"pricePerHour": 3.87, "unpriced": 1, "nodes": []row{
		{"node": "alpha", "claim": "general-a1", "nodePool": "general", "instanceType": "m7i.large", "zone": "a", "capacityType": "spot", "pricePerHour": 0.05, "created": at(time.Hour), "state": "ready", "cpu": share(1, 2), "memory": share(1, 4), "pods": 3, "kept": kept},
		{"node": "beta", "claim": "general-b2", "nodePool": "general", "instanceType": "m7i.4xlarge", "zone": "b", "capacityType": "on-demand", "pricePerHour": 0.8, "created": at(50 * time.Hour), "state": "ready", "cpu": share(1, 10), "memory": share(1, 10), "pods": 0, "disruption": "Empty, saves $0.8000/h"},
		{"node": "gamma", "claim": "gpu-c3", "nodePool": "gpu", "instanceType": "g6.xlarge", "zone": "a", "capacityType": "on-demand", "pricePerHour": 3, "created": at(20 * time.Minute), "state": "not ready", "cpu": share(9, 10), "memory": share(5, 10), "pods": 1, "kept": kept},
		{"node": "gpu-d4", "claim": "gpu-d4", "nodePool": "gpu", "instanceType": "g6.xlarge", "zone": "c", "capacityType": "spot", "pricePerHour": 0.02, "created": at(time.Minute), "state": "starting", "cpu": share(0, 10), "memory": share(0, 10), "pods": 0, "kept": kept},
		{"node": "Own", "pricePerHour": nil, "created": at(1000 * time.Hour), "state": "ready", "cpu": share(1, 4), "memory": share(1, 4), "pods": 9, "kept": map[string]string{"code": "NotManaged", "message": "the node has no NodeClaim"}},
	}})
	p.Pods = []dashboard.Pod{{Name: "shop/web-1", Node: "alpha"}, {Name: "shop/web-2", Node: "beta"}, {Name: "ml/train", Waiting: &dashboard.Waiting{Fate: dashboard.Placed, On: "gpu-d4"}}}
	return p
}

func names(page string) string {
	_, rows, _ := strings.Cut(page, `<table class="cards nodes">`)
	var out []string
	for _, cell := range between(rows, `<th scope="row">`, "</th>") {
		_, name, _ := strings.Cut(cell, ">")
		out = append(out, strings.TrimSuffix(name, "</a>"))
	}
	return strings.Join(out, " ")
}

func TestFilterSelectsNodes(t *testing.T) {
	t.Parallel()
	handler := serve(t, few())
	for _, c := range []struct{ filter, want string }{
		{"", "alpha beta gamma gpu-d4 Own"},
		{"pool=gpu", "gamma gpu-d4"},
		{"pool=GPU", "gamma gpu-d4"},
		{"pool!=gpu", "alpha beta Own"},
		{`pool=""`, "Own"},
		{"pool=gpu,general", "alpha beta gamma gpu-d4"},
		{"zone=a", "alpha gamma"},
		{"zone!=a,b", "gpu-d4 Own"},
		{"type~xlarge", "beta gamma gpu-d4"},
		{"type=m7i.large", "alpha"},
		{"capacity=spot", "alpha gpu-d4"},
		{"state=goes", "beta"},
		{"state=ready", "alpha Own"},
		{`state="not ready"`, "gamma"},
		{"reason=NotManaged", "Own"},
		{"name~a", "alpha beta gamma"},
		{"claim=gpu-c3", "gamma"},
		{"price>0.5", "beta gamma"},
		{"price>=0.8", "beta gamma"},
		{"price<$0.05", "gpu-d4"},
		{"price<=0.05", "alpha gpu-d4"},
		{"price=3", "gamma"},
		{"cpu<30", "beta gpu-d4 Own"},
		{"cpu>=90%", "gamma"},
		{"memory=50%", "gamma"},
		{"pods=0", "beta gpu-d4"},
		{"pods!=0", "alpha gamma Own"},
		{"age>2d", "beta Own"},
		{"age<=20m", "gamma gpu-d4"},
		{"age>1.5h", "beta Own"},
		{"pool=gpu price>1", "gamma"},
		{"  pool=general   state=goes  ", "beta"},
		{"web", "alpha beta"},
		{"web-1", "alpha"},
		{"train", "gpu-d4"},
		{"own", "Own"},
		{`"shop/web" pool=general zone=b`, "beta"},
		{"nothing-like-it", ""},
	} {
		page := get(t, handler, "/?filter="+url.QueryEscape(c.filter))
		if got := names(page); got != c.want {
			t.Errorf("%q shows %q, want %q", c.filter, got, c.want)
		}
	}
}

func TestFilterErrorsNameThePlace(t *testing.T) {
	t.Parallel()
	handler := serve(t, few())
	for _, c := range []struct {
		filter string
		at     int
		says   string
	}{
		{"colour=red", 0, `nodes have no "colour"`},
		{"pool=gpu size>1", 9, `nodes have no "size"`},
		{"=gpu", 0, `nodes have no ""`},
		{"pool>3", 4, "pool has no size"},
		{"price~3", 5, "price is a number"},
		{"price>", 6, "a value is missing here"},
		{"pool= zone=a", 5, "a value is missing here"},
		{"price>much", 6, `price is compared with a number, not "much"`},
		{"price>nan", 6, `price is compared with a number, not "nan"`},
		{"cpu<a%", 4, `cpu is compared with a number, not "a%"`},
		{"age>3", 4, "90m, 2h or 3d"},
		{"age>xd", 4, "90m, 2h or 3d"},
		{"age<nand", 4, "90m, 2h or 3d"},
		{`zone=a state="not ready`, 13, "the quote that begins here does not end"},
		{`"web`, 0, "the quote that begins here does not end"},
		{"pool!gpu", 4, `"!" compares nothing`},
		{"name~ä ö=1", 7, `nodes have no "ö"`},
	} {
		w := ask(handler, http.MethodGet, "/?filter="+url.QueryEscape(c.filter))
		page := html.UnescapeString(w.Body.String())
		want := fmt.Sprintf("filter, character %d: ", c.at+1)
		if w.Code != http.StatusBadRequest || !strings.Contains(page, want) || !strings.Contains(page, c.says) {
			t.Errorf("%q: %d, %q, want %s… %s", c.filter, w.Code, between(page, `id="filter-error"><p>`, "</p>"), want, c.says)
		}
		if mark := strings.Repeat(" ", c.at) + "^</pre>"; !strings.Contains(page, "\n"+mark) {
			t.Errorf("%q: no mark below character %d", c.filter, c.at+1)
		}
		if !strings.Contains(page, `value="`+c.filter) {
			t.Errorf("%q: the field has lost what was typed", c.filter)
		}
	}
}
