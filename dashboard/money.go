package dashboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"
)

const moneyPath = "/money"

func moneyScreen() *screen {
	return &screen{name: "Money", path: moneyPath, patterns: []string{"GET " + moneyPath}, fill: fillMoney}
}

// A Buffer is the state of a CapacityBuffer, in pods, and the cost of its room.
type Buffer struct {
	Namespace, Name        string
	Size, Existing, Coming int
	PricePerHour           float64
}

// A NamespaceCost is the share of a namespace's pods in the price of the nodes, by their requests.
type NamespaceCost struct {
	Namespace    string
	Pods         int
	PricePerHour float64
}

// otherNamespaces is the common name of the namespaces whose names are not shown.
const otherNamespaces = "other namespaces"

// savingsDocument is the part of tenon savings' document that the page shows.
type savingsDocument struct {
	NowPerHour     float64      `json:"nowPerHour"`
	PlannedPerHour float64      `json:"plannedPerHour"`
	BoundPerHour   *float64     `json:"boundPerHour"`
	Causes         []cause      `json:"causes"`
	Pools          []moneyPool  `json:"pools"`
	Idle           []idleRecord `json:"idle"`
	Unpriced       []string     `json:"unpriced"`
	Starting       int          `json:"starting"`
	StartingPrice  float64      `json:"startingPerHour"`
	Outside        int          `json:"outside"`
	OutsidePrice   float64      `json:"outsidePerHour"`
	Kept           []keptRecord `json:"kept"`
}

// A cause is a part of the possible saving, in USD per hour, below zero if the plan costs more.
type cause struct {
	Name    string  `json:"name"`    // the cause in words
	Setting string  `json:"setting"` // the field of a NodePool that decides on it
	PerHour float64 `json:"perHour"`
}

// Amount is the saving as text, written by words, or "costs … more" if the saving is negative.
func (c *cause) Amount(words func(float64) string) string {
	if c.PerHour < 0 {
		return "costs " + words(-c.PerHour) + " more"
	}
	return words(c.PerHour)
}

// keptRecord is the number of nodes that stay for a reason, with one of the nodes.
type keptRecord struct {
	Code     string `json:"code"`
	NodePool string `json:"nodePool"`
	Nodes    int    `json:"nodes"`
	Message  string `json:"message"`
}

type moneyPool struct {
	NodePool       string  `json:"nodePool"`
	Nodes          int     `json:"nodes"`
	NowPerHour     float64 `json:"nowPerHour"`
	PlannedNodes   int     `json:"plannedNodes"`
	PlannedPerHour float64 `json:"plannedPerHour"`
}

type idleRecord struct {
	Node         string  `json:"node"`
	NodePool     string  `json:"nodePool"`
	InstanceType string  `json:"instanceType"`
	PricePerHour float64 `json:"pricePerHour"`
	Used         float64 `json:"used"`
	IdlePerHour  float64 `json:"idlePerHour"`
}

const (
	mostIdle = 20 // the most shown nodes with room that no pod requests
	mostHeld = 4  // the most shown reasons that hold a saving back
)

// moneyData is the input of the template of the money.
type moneyData struct {
	NoSavings  string // why there is no comparison
	Compared   *savingsDocument
	Gap        *float64 // the present price above the bound, as a share of the bound
	Idle       []idleRecord
	IdleMore   int
	Held       []keptRecord
	Reasons    []reasonRow
	Saved      float64
	NoJournal  string
	Chart      *chart
	Namespaces []NamespaceCost
	// USD an hour: of the requests of pods, of room without requests, of the part that the comparison leaves out, and of all nodes.
	Requested, Unused, LeftOut, Total float64
	Buffers                           []Buffer
	BuffersPrice                      float64
	Export                            bool // without links
}

func fillMoney(_ *http.Request, v *view) (content, error) {
	return content{title: "Money", shows: moneyPage(newMoneyData(v))}, nil
}

func newMoneyData(v *view) *moneyData {
	d := &moneyData{Namespaces: v.Namespaces, Buffers: v.Buffers, Total: v.nodes.PricePerHour}
	if err := d.compare(v); err != nil {
		d.NoSavings = capital(err.Error())
	}
	if v.Journal == nil {
		d.NoJournal = capital(v.NoJournal)
	} else {
		made := newDecisionsData(decisionsQuery{page: 1}, v, 1)
		d.Reasons, d.Chart = made.Savings, newChart(v)
		for _, r := range d.Reasons {
			d.Saved += r.Saved
		}
	}
	for _, n := range d.Namespaces {
		d.Requested += n.PricePerHour
	}
	d.Unused = max(0, d.Total-d.Requested)
	if d.Compared != nil {
		idle := 0.0
		for _, n := range d.Compared.Idle {
			idle += n.IdlePerHour
		}
		if d.LeftOut = d.Unused - idle; d.LeftOut < 0.00005 { // nothing, or prices that commitments change
			d.LeftOut = 0
		}
		d.Unused -= d.LeftOut
	}
	for _, b := range d.Buffers {
		d.BuffersPrice += b.PricePerHour
	}
	return d
}

// compare reads the document of tenon savings.
func (d *moneyData) compare(v *view) error {
	if v.Savings == nil {
		return errors.New("there is nothing to compare")
	}
	text, err := v.Savings()
	if err != nil {
		return err
	}
	d.Compared = &savingsDocument{}
	if err := json.Unmarshal(text, d.Compared); err != nil {
		return fmt.Errorf("read the document of the savings: %w", err)
	}
	if b := d.Compared.BoundPerHour; b != nil && *b > 0 {
		d.Gap = new(d.Compared.NowPerHour / *b - 1)
	}
	d.Held = d.Compared.Kept[:min(len(d.Compared.Kept), mostHeld)]
	d.Idle = d.Compared.Idle[:min(len(d.Compared.Idle), mostIdle)]
	d.IdleMore = len(d.Compared.Idle) - len(d.Idle)
	return nil
}

// saving returns the saving of a plan in USD an hour; it may be below zero.
func (c *savingsDocument) saving() float64 { return c.NowPerHour - c.PlannedPerHour }

// saves reports whether a plan saves money.
func (c *savingsDocument) saves() bool { return c.saving() > 0.00005 }

// compared states the present price, the price of a plan, and the bound.
func (d *moneyData) compared() string {
	c := d.Compared
	words := dollars(c.NowPerHour) + "/h now; a plan for the same pods, if all could move at once, would cost " + dollars(c.PlannedPerHour) + "/h"
	if c.BoundPerHour != nil {
		words += ", and no plan less than " + dollars(*c.BoundPerHour) + "/h"
	}
	words += "."
	if d.Gap != nil {
		words += " The nodes cost " + gap(*d.Gap) + " more now than that."
	}
	var out []string
	leftOut := func(n int, of, what string, usd float64) {
		if n == 0 {
			return
		}
		text := count(n, of) + " " + what
		if usd > 0 {
			text += " (" + dollars(usd) + "/h)"
		}
		out = append(out, text)
	}
	leftOut(c.Starting, "machine", "without a node yet", c.StartingPrice)
	leftOut(c.Outside, "node", "outside pools", c.OutsidePrice)
	leftOut(len(c.Unpriced), "node", "of unknown price", 0)
	if len(out) > 0 {
		words += " Not compared: " + strings.Join(out, ", ") + "."
	}
	return words
}

// reasonLink returns the link to the decisions of a reason, except in the exported file.
func (d *moneyData) reasonLink(r reasonRow) string {
	if d.Export {
		return ""
	}
	return decisionsQuery{reason: r.Reason}.address()
}

// idleLink returns the link to the story of a node, except in the exported file.
func (d *moneyData) idleLink(n idleRecord) string {
	if d.Export {
		return ""
	}
	return whyAddress(KindNode, n.Node)
}

func (b *Buffer) name() string {
	if b.Name == "" {
		return b.Namespace
	}
	return b.Namespace + "/" + b.Name
}

// words describes the chart.
func (c *chart) words() string {
	return fmt.Sprintf("What the nodes cost from %s to %s: between %s/h and %s/h, at last %s/h. The table below says the same in numbers.",
		exact(c.From), exact(c.To), dollars(c.Least), dollars(c.Most), dollars(c.Last))
}

// moneyWithin adds up the namespaces that the reader may not see, as otherNamespaces, and hides the document of savings.
func moneyWithin(p *Picture, from *Picture, sees func(namespace string) bool) {
	p.Savings = func() ([]byte, error) { return nil, errOutOfSight }
	others, room := NamespaceCost{Namespace: otherNamespaces}, Buffer{Namespace: otherNamespaces}
	for _, n := range from.Namespaces {
		if sees(n.Namespace) {
			p.Namespaces = append(p.Namespaces, n)
			continue
		}
		others.Pods, others.PricePerHour = others.Pods+n.Pods, others.PricePerHour+n.PricePerHour
	}
	for _, b := range from.Buffers {
		if sees(b.Namespace) {
			p.Buffers = append(p.Buffers, b)
			continue
		}
		room.Size, room.Existing, room.Coming, room.PricePerHour = room.Size+b.Size, room.Existing+b.Existing, room.Coming+b.Coming, room.PricePerHour+b.PricePerHour
	}
	if others.Pods > 0 {
		p.Namespaces = append(p.Namespaces, others)
	}
	if room.Size > 0 {
		p.Buffers = append(p.Buffers, room)
	}
}

// A chart is the cost of the machines over time, in steps.
type chart struct {
	Width, Height, Left int
	Line, Area          string
	Ticks               []tick
	Times               []timeTick
	From, To            time.Time
	Least, Most, Last   float64
	Points              []Cost // the newest, for the table
}

type tick struct {
	Y    int
	Says string
}

const (
	chartTop    = 12
	chartBottom = 28 // the times are below the axis
	mostPoints  = 12
)

// newChart draws the cost of the machines, or returns nil if nothing is known of it.
func newChart(v *view) *chart {
	points := slices.Clone(v.Costs)
	if len(points) == 0 {
		return nil
	}
	to := v.journal.AsOf
	if newer := v.At.Sub(to); newer > -time.Minute && newer < time.Hour { // the picture is of the same hour as the journal
		points = append(points, Cost{v.At, v.nodes.PricePerHour})
		to = v.At
	}
	c := &chart{Width: 1280, Height: 220, Left: 84, From: points[0].Time, To: to, Least: points[0].PricePerHour, Most: points[0].PricePerHour, Last: points[len(points)-1].PricePerHour}
	for _, p := range points {
		c.Least, c.Most = min(c.Least, p.PricePerHour), max(c.Most, p.PricePerHour)
	}
	span, top := max(to.Sub(c.From).Seconds(), 1), max(c.Most, 1e-9)
	x := func(at time.Time) int {
		return c.Left + int(math.Round(min(1, at.Sub(c.From).Seconds()/span)*float64(c.Width-c.Left)))
	}
	y := func(price float64) int {
		return c.Height - chartBottom - int(math.Round(price/top*float64(c.Height-chartTop-chartBottom)))
	}
	var line strings.Builder
	fmt.Fprintf(&line, "M%d %d", c.Left, y(points[0].PricePerHour))
	drawnX, drawnY := c.Left, y(points[0].PricePerHour)
	for _, p := range points {
		atX, atY := x(p.Time), y(p.PricePerHour)
		if atY == drawnY && atX < c.Width { // a step of no height is no step
			continue
		}
		fmt.Fprintf(&line, "H%dV%d", max(atX, drawnX), atY)
		drawnX, drawnY = atX, atY
	}
	fmt.Fprintf(&line, "H%d", c.Width)
	c.Line = line.String()
	c.Area = fmt.Sprintf("%sV%dH%dz", c.Line, y(0), c.Left)
	for _, price := range []float64{0, top / 2, top} {
		says := dollars(price)
		if top >= 0.1 {
			says = fmt.Sprintf("$%.2f", price)
		}
		c.Ticks = append(c.Ticks, tick{y(price), says + "/h"})
	}
	c.Times = timeTicks(c.From, c.To, x)
	points = slices.CompactFunc(points, func(a, b Cost) bool { return a.PricePerHour == b.PricePerHour })
	c.Points = points[max(0, len(points)-mostPoints):]
	slices.Reverse(c.Points)
	return c
}

func savingsText(v *view, _ *http.Request) ([]byte, error) {
	if v.Savings == nil {
		return nil, errors.New("there is nothing to compare")
	}
	return v.Savings()
}
