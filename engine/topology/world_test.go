package topology_test

import (
	"slices"
	"testing"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/topology"
)

// The keys of the tables. A place has a zone (of three), a rack (of two), and whether it passes the filter.
const (
	zoneKey = iota
	rackKey
	filterKey
)

func zone(d int32) topology.Place        { return topology.Place{d, topology.Nowhere, 1} }
func filteredOut(d int32) topology.Place { return topology.Place{d, topology.Nowhere, 0} }
func rack(zone, d int32) topology.Place  { return topology.Place{zone, d, 1} }

// zones returns a layout with one group, counted by zone; -1 means that no machine is there.
func zones(counts ...int) *topology.Layout {
	g := topology.Group{Key: zoneKey, Filter: -1, There: bitset.New(3)}
	for d, n := range counts {
		if n >= 0 {
			g.There.Add(d)
		}
		g.Count = append(g.Count, max(n, 0))
	}
	return &topology.Layout{Domains: []int{3, 2, 2}, Groups: []topology.Group{g}}
}

// spread returns the rules of a pod that group 0 counts, and that has a spread with this skew.
func spread(skew, minDomains int) *topology.Rules {
	return &topology.Rules{Spread: []topology.Spread{{MaxSkew: skew, MinDomains: minDomains, Self: true}}, Groups: []int{0}}
}

// foreign returns the rules of a pod that has a spread with this skew over a group that does not count it.
func foreign(skew int) *topology.Rules {
	return &topology.Rules{Spread: []topology.Spread{{MaxSkew: skew}}}
}

// answers returns, for each of the three zones, whether one more pod may come: y or n.
func answers(world *topology.World, r *topology.Rules) string {
	out := ""
	for d := range int32(3) {
		if _, ok := world.Allows(r, zone(d)); ok {
			out += "y"
		} else {
			out += "n"
		}
	}
	return out
}

func TestSpreadKeepsTheSkewAgainstTheEmptiestDomain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		layout *topology.Layout
		rules  *topology.Rules
		want   string
	}{
		{"even", zones(1, 1, 1), spread(1, 0), "yyy"},
		{"one behind", zones(1, 1, 0), spread(1, 0), "nny"},
		{"one behind, skew 2", zones(1, 1, 0), spread(2, 0), "yyy"},
		{"one ahead", zones(2, 1, 1), spread(1, 0), "nyy"},
		{"uneven beyond repair: only the emptiest will do", zones(5, 3, 0), spread(1, 0), "nny"},
		{"a pod that is not counted may join a fuller domain", zones(1, 1, 0), foreign(1), "yyy"},
		{"but not beyond the skew", zones(2, 1, 0), foreign(1), "nyy"},
		{"a domain without machines holds nobody back", zones(1, 1, -1), spread(1, 0), "yyy"},
		{"no domain is there", zones(-1, -1, -1), spread(1, 0), "yyy"},
		{"fewer domains than asked for: the emptiest counts as empty", zones(1, 1, -1), spread(1, 3), "nny"},
		{"as many domains as asked for", zones(1, 1, 1), spread(1, 3), "yyy"},
		{"more domains than asked for", zones(1, 1, 1), spread(1, 2), "yyy"},
		{"a number of domains that is never there lets in the skew", zones(2, 1, 0), spread(2, 4), "nyy"},
	} {
		if got := answers(topology.NewWorld(c.layout), c.rules); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

func TestPlacesWithoutTheKeyAreNoPlaceForItsRules(t *testing.T) {
	t.Parallel()
	l := zones(0, 0, 0)
	l.Sets = []topology.Set{{Keys: []int{zoneKey}, Count: [][]int{{0, 0, 0}}}}
	for _, d := range []int32{topology.Nowhere, topology.Open} {
		world := topology.NewWorld(l)
		if _, ok := world.Allows(spread(1, 0), zone(d)); ok {
			t.Errorf("a spread over zones is kept in domain %d", d)
		}
		first := &topology.Rules{Affinity: []topology.Affinity{{Self: true}}, Sets: []int{0}}
		if _, ok := world.Allows(first, zone(d)); ok {
			t.Errorf("a pod founds its company in domain %d", d)
		}
		world.Put(&topology.Rules{Groups: []int{0}, Sets: []int{0}}, zone(d), 2)
		if got := world.Count(0); !slices.Equal(got, []int{0, 0, 0}) || world.Total(0) != 0 {
			t.Errorf("pods in domain %d count: %v, %d", d, got, world.Total(0))
		}
	}
}

func TestFilterLeavesMachinesOutOfTheCount(t *testing.T) {
	t.Parallel()
	l := zones(0, 0, -1)
	l.Groups[0].Filter = filterKey
	world := topology.NewWorld(l)
	world.Put(spread(1, 0), filteredOut(0), 5)
	if got := answers(world, spread(1, 0)); got != "yyy" {
		t.Errorf("pods on machines that do not count keep others out: %s", got)
	}
	world.Open(0, filteredOut(2))
	if got := world.Count(0); !slices.Equal(got, []int{0, 0, -1}) {
		t.Errorf("a machine that does not count opens a domain: %v", got)
	}
	world.Put(spread(1, 0), zone(0), 1)
	// kube-scheduler checks the skew of the domain also on machines that do not count.
	if _, ok := world.Allows(spread(1, 0), filteredOut(0)); ok {
		t.Error("a machine that does not count takes a pod although its domain is too full")
	}
	if world.Counts(0, filteredOut(0)) || !world.Counts(0, zone(0)) {
		t.Error("Counts does not tell machines apart by the filter")
	}
}

func TestDomainsThatCanBeOpenedCountAsEmpty(t *testing.T) {
	t.Parallel()
	world := topology.NewWorld(zones(1, 1, -1))
	if got := answers(world, spread(1, 0)); got != "yyy" {
		t.Fatalf("before: %s", got)
	}
	world.Open(0, zone(topology.Open)) // its domain is not known, so it opens none
	if got := answers(world, spread(1, 0)); got != "yyy" {
		t.Errorf("a machine without a domain opens one: %s", got)
	}
	world.OpenDomain(0, 2)
	if got := answers(world, spread(1, 0)); got != "nny" {
		t.Errorf("after: %s", got)
	}
}

func TestForeignSelectorsCountOtherPods(t *testing.T) {
	t.Parallel()
	world := topology.NewWorld(zones(0, 0, 0))
	counted := &topology.Rules{Groups: []int{0}} // has no spread of its own
	world.Put(counted, zone(0), 1)
	world.Put(counted, zone(1), 1)
	if got := answers(world, spread(1, 0)); got != "nny" {
		t.Errorf("the owner of the spread: %s", got)
	}
	if got := answers(world, counted); got != "yyy" {
		t.Errorf("the pods that it counts: %s", got)
	}
	if uneven, _ := world.Allows(counted, zone(0)); uneven != 1 {
		t.Errorf("zone 0 is %d ahead, want 1", uneven)
	}
}

func TestAffinityWantsAllOfItsKeysAndMayFoundItsCompany(t *testing.T) {
	t.Parallel()
	member := &topology.Rules{Sets: []int{0}}
	follower := &topology.Rules{Affinity: []topology.Affinity{{}}}
	founder := &topology.Rules{Affinity: []topology.Affinity{{Self: true}}, Sets: []int{0}}
	places := []topology.Place{rack(0, 0), rack(0, 1), rack(1, 0), rack(1, 1), rack(2, topology.Nowhere)}
	for _, c := range []struct {
		name  string
		keys  []int
		put   []topology.Place
		rules *topology.Rules
		want  string
	}{
		{"nobody to follow", []int{zoneKey}, nil, follower, "nnnnn"},
		{"the first may go anywhere", []int{zoneKey}, nil, founder, "yyyyy"},
		{"but where a key is missing", []int{zoneKey, rackKey}, nil, founder, "yyyyn"},
		{"the same zone", []int{zoneKey}, places[:1], follower, "yynnn"},
		{"once somebody is there the founder follows", []int{zoneKey}, places[:1], founder, "yynnn"},
		{"the same zone and the same rack", []int{zoneKey, rackKey}, places[:1], follower, "ynnnn"},
		{"each key may be met by another pod", []int{zoneKey, rackKey}, []topology.Place{rack(0, 0), rack(1, 1)}, follower, "yyyyn"},
		{"a machine without one of the keys is counted by the other", []int{zoneKey, rackKey}, places[4:], founder, "nnnnn"},
		{"machines are the caller's to check", []int{topology.Host}, nil, follower, "yyyyy"},
		{"machines are the caller's, zones are not", []int{topology.Host, zoneKey}, places[:1], follower, "yynnn"},
	} {
		set := topology.Set{Keys: c.keys}
		for _, k := range c.keys {
			if k == topology.Host {
				set.Count = append(set.Count, nil)
			} else {
				set.Count = append(set.Count, make([]int, 3-k))
			}
		}
		world := topology.NewWorld(&topology.Layout{Domains: []int{3, 2, 2}, Sets: []topology.Set{set}})
		for _, p := range c.put {
			world.Put(member, p, 1)
		}
		got := ""
		for _, p := range places {
			if _, ok := world.Allows(c.rules, p); ok {
				got += "y"
			} else {
				got += "n"
			}
		}
		if got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
		if world.Total(0) != len(c.put) {
			t.Errorf("%s: %d pods in the set, want %d", c.name, world.Total(0), len(c.put))
		}
	}
}

func TestRunningPodsAreCompany(t *testing.T) {
	t.Parallel()
	l := &topology.Layout{Domains: []int{3, 2, 2}, Sets: []topology.Set{{Keys: []int{zoneKey}, Count: [][]int{{0, 2, 0}}, Total: 2}}}
	world := topology.NewWorld(l)
	if got := answers(world, &topology.Rules{Affinity: []topology.Affinity{{Self: true}}, Sets: []int{0}}); got != "nyn" {
		t.Errorf("a pod that could found a company joins the one that is there: got %s", got)
	}
	if got := world.Domains(0, 0); !slices.Equal(got, []int{1}) {
		t.Errorf("the company is in %v", got)
	}
}

func TestMarksKeepApartWhicheverComesFirst(t *testing.T) {
	t.Parallel()
	// Mark 0 is "a pod that the term selects", mark 1 "an owner of the term".
	owner := &topology.Rules{Owns: []int{1}, Rejects: []int{0}}
	selected := &topology.Rules{Owns: []int{0}, Rejects: []int{1}}
	both := &topology.Rules{Owns: []int{0, 1}, Rejects: []int{0, 1}}
	none := &topology.Rules{}
	for _, c := range []struct {
		name          string
		first, second *topology.Rules
		want          string
	}{
		{"the owner keeps out whom it selects", owner, selected, "nyy"},
		{"whom the term selects keeps out the owner", selected, owner, "nyy"},
		{"owners that do not select themselves live together", owner, owner, "yyy"},
		{"those that are selected live together", selected, selected, "yyy"},
		{"owners that select themselves live alone", both, both, "nyy"},
		{"others do not care", both, none, "yyy"},
	} {
		l := &topology.Layout{Domains: []int{3, 2, 2}, Marks: []topology.Mark{{Key: zoneKey}, {Key: zoneKey}}}
		world := topology.NewWorld(l)
		world.Put(c.first, zone(0), 1)
		if got := answers(world, c.second); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
	l := &topology.Layout{Domains: []int{3, 2, 2}, Marks: []topology.Mark{{Key: zoneKey, At: bitset.Of(3, 2)}, {Key: zoneKey}}}
	if got := answers(topology.NewWorld(l), owner); got != "yyn" {
		t.Errorf("pods that run bear marks: got %s", got)
	}
}

func TestNoDomainOwnsNoMark(t *testing.T) {
	t.Parallel()
	alone := &topology.Rules{Owns: []int{0}, Rejects: []int{0}}
	world := topology.NewWorld(&topology.Layout{Domains: []int{3, 2, 2}, Marks: []topology.Mark{{Key: zoneKey}}})
	world.Put(alone, zone(topology.Nowhere), 1)
	if _, ok := world.Allows(alone, zone(topology.Nowhere)); !ok || answers(world, alone) != "yyy" {
		t.Error("two machines without a zone are not in the same zone")
	}
}

func TestInterestIsEveryKeyThatMatters(t *testing.T) {
	t.Parallel()
	l := &topology.Layout{
		Domains: []int{3, 2, 2},
		Groups:  []topology.Group{{Key: zoneKey, Filter: filterKey}, {Key: topology.Host, Filter: -1}, {Key: topology.Host, Filter: filterKey}},
		Sets:    []topology.Set{{Keys: []int{rackKey, topology.Host}}, {Keys: []int{zoneKey}}},
		Marks:   []topology.Mark{{Key: rackKey}},
	}
	for _, c := range []struct {
		name   string
		rules  topology.Rules
		want   []int
		byHost bool
	}{
		{"nothing", topology.Rules{}, nil, false},
		{"a spread, and its filter", topology.Rules{Spread: []topology.Spread{{Group: 0}}}, []int{zoneKey, filterKey}, false},
		{"being counted", topology.Rules{Groups: []int{0}}, []int{zoneKey, filterKey}, false},
		{"a spread over machines", topology.Rules{Spread: []topology.Spread{{Group: 1}}}, nil, true},
		{"being counted on some machines", topology.Rules{Groups: []int{2}}, []int{filterKey}, true},
		{"affinity", topology.Rules{Affinity: []topology.Affinity{{Set: 0}}}, []int{rackKey}, true},
		{"being company", topology.Rules{Sets: []int{1}}, []int{zoneKey}, false},
		{"being company on a machine", topology.Rules{Sets: []int{0}}, []int{rackKey}, true},
		{"marks", topology.Rules{Owns: []int{0}}, []int{rackKey}, false},
		{"marks of others", topology.Rules{Rejects: []int{0}, Groups: []int{0}}, []int{zoneKey, rackKey, filterKey}, false},
		{"host marks", topology.Rules{HostOwns: bitset.Of(3, 1)}, nil, true},
		{"host marks of others", topology.Rules{HostRejects: bitset.Of(3, 1)}, nil, true},
	} {
		if got := c.rules.Interest(l); !slices.Equal(got, c.want) {
			t.Errorf("%s: interest is %v, want %v", c.name, got, c.want)
		}
		if got := c.rules.ByHost(l); got != c.byHost {
			t.Errorf("%s: by host is %v", c.name, got)
		}
	}
}
