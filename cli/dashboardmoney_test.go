package cli

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"tenon.sh/engine"
	"tenon.sh/scenario"
)

// The shares of namespaces and the unrequested rest add up to the nodes' cost in tenon nodes. The pods of a full node share its whole price.
func TestNamespacesHaveNoMoreThanTheNodesCost(t *testing.T) {
	t.Parallel()
	large, err := os.ReadFile("../dashboard/testdata/cluster.txt")
	must(t, err)
	for text, want := range map[string]map[string]float64{
		string(large): nil,
		"type m cpu=4 mem=8Gi zones=a price=0.40\npool p\nnode n1 pool=p type=m zone=a\nnode n2 pool=p type=m zone=a\npod a ns=x cpu=1 mem=1Gi node=n1\npod b ns=y cpu=3 mem=1Gi node=n1\n": {"x": 0.10, "y": 0.30},
		"type m cpu=4 mem=8Gi zones=a price=0.40\npool p\nnode n1 pool=p type=m zone=a\npod a ns=x cpu=1 mem=1Gi node=n1\npod b ns=y cpu=500m mem=2Gi node=n1\n":                            {"x": 0.075, "y": 0.075},
	} {
		file, err := scenario.Parse(text)
		must(t, err)
		p, err := newPicture("x", &scenario.Reading{Snapshot: file.Snapshot, Options: file.Options})
		must(t, err)
		var nodes struct{ PricePerHour float64 }
		must(t, json.Unmarshal(p.Nodes, &nodes))
		sum := 0.0
		for _, n := range p.Namespaces {
			sum += n.PricePerHour
			if price, ok := want[n.Namespace]; ok && math.Abs(price-n.PricePerHour) > 0.02*price {
				t.Errorf("%s has %f, want %f", n.Namespace, n.PricePerHour, price)
			}
		}
		if sum <= 0.3*nodes.PricePerHour || sum > nodes.PricePerHour || len(p.Namespaces) < 2 {
			t.Errorf("namespaces have %f of %f", sum, nodes.PricePerHour)
		}
	}
}

func TestTheMoneyScreenShowsWhatSavingsSays(t *testing.T) {
	t.Parallel()
	const cluster = "../dashboard/testdata/cluster.txt"
	text, _, err := run(t, "savings", "-f", cluster, "-o", "json")
	must(t, err)
	var d struct {
		NowPerHour, PlannedPerHour, StartingPerHour float64
		Starting                                    int
		Idle                                        []struct {
			Node        string
			IdlePerHour float64
		}
		Causes []struct{ PerHour float64 }
	}
	must(t, json.Unmarshal([]byte(text), &d))
	_, page := pageAt(t, pageOf(t, cluster), "/money")
	page = strings.Join(strings.Fields(pageWords(page)), " ")
	idle := 0.0
	for _, n := range d.Idle {
		idle += n.IdlePerHour
	}
	for _, want := range []string{
		"what could be saved " + engine.Dollars(d.NowPerHour-d.PlannedPerHour) + " /h", fmt.Sprintf("spot instead of on-demand %.4f", d.Causes[0].PerHour), "for the same requests costs 0.2498 more costs $182.39 more", "33 nodes: consolidateafter",
		fmt.Sprintf("not compared: %d machines without a node yet (%s/h), 2 nodes outside pools.", d.Starting, engine.Dollars(d.StartingPerHour)), // the difference from the head
		"requested by nobody, " + engine.Dollars(idle) + "/h", fmt.Sprintf("not compared %.4f $467.13 requested by nobody %.4f", d.StartingPerHour, idle),
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the screen lacks %q:\n%s", want, page)
		}
	}
	if first := strings.Index(page, "what could be saved"); first > strings.Index(page, "what the nodes cost over time") {
		t.Error("what could be saved does not come first")
	}
	for _, want := range []string{engine.Dollars(d.NowPerHour) + "/h" + " now", "would cost " + engine.Dollars(d.PlannedPerHour), d.Idle[0].Node, "requested by nobody", "no capacitybuffer keeps room", "a file of a cluster has no journal"} {
		if !strings.Contains(page, want) {
			t.Errorf("the screen lacks %q", want)
		}
	}
}

// The screen shows the buffers' room with the same cost as tenon plan.
func TestTheMoneyScreenShowsTheRoomOfBuffers(t *testing.T) {
	t.Parallel()
	file := snapshotFile(t, "type m cpu=4 mem=16Gi zones=a price=0.20\npool general\nnode n1 pool=general type=m zone=a\n"+
		"pods web x3 ns=shop cpu=1 mem=1Gi node=n1\nbuffer spare ns=shop replicas=5 cpu=1 mem=1Gi\n")
	text, _, err := run(t, "plan", "-f", file)
	must(t, err)
	_, page := pageAt(t, pageOf(t, file), "/money")
	page = strings.Join(strings.Fields(pageWords(page)), " ")
	_, row, found := strings.Cut(page, "capacitybuffer pods on nodes to come usd/hour shop/spare ")
	words := strings.Fields(row)
	if !found || words[0] != "5" || words[1] != "1" || words[2] != "4" || !strings.Contains(strings.Join(strings.Fields(text), " "), "shop/spare") || !strings.Contains(text, words[3]) {
		t.Errorf("the screen has %.60q; tenon plan says\n%s", row, text)
	}
}
