package cli

import (
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tenon.sh/simulator"
)

// checkPicture checks the file's name before the simulation, which may take minutes.
func checkPicture(name string) error {
	if filepath.Ext(name) != ".svg" {
		return fmt.Errorf("--picture %s: the picture is an SVG: let its name end in .svg", name)
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return fmt.Errorf("--picture %s: it is a folder: name a file", name)
	}
	if _, err := os.Stat(filepath.Dir(name)); err != nil {
		return fmt.Errorf("--picture: %w", err)
	}
	return nil
}

func writePicture(name string, results []*simulator.Result, days float64) error {
	if err := os.WriteFile(name, []byte(drawSimulation(results, days)), 0o644); err != nil {
		return fmt.Errorf("--picture: %w", err)
	}
	return nil
}

// Lengths of a picture, in pixels.
const (
	pictureWidth = 960
	plotLeft     = 64 // the numbers at the ticks are left of it
	plotWidth    = pictureWidth - plotLeft - 24
	legendTop    = 62
	legendRow    = 22
	costHeight   = 260
	waitHeight   = 110
)

// pictureStyle has eight colours for settings, for light and for dark backgrounds.
const pictureStyle = `text { font: 13px system-ui, "Segoe UI", Roboto, "Liberation Sans", "DejaVu Sans", sans-serif; fill: #1a1f25 }
.title { font-size: 17px; font-weight: 600 }
.head { font-weight: 600 }
.soft { fill: #59636e }
.paper { fill: #ffffff }
.grid { stroke: #dfe3e7 }
.bound { fill: #dde3e9 }
.line { fill: none; stroke-width: 2; stroke-linejoin: round }
.again { stroke-dasharray: 7 4 }
.c0 { stroke: #59636e } .c1 { stroke: #c2410c } .c2 { stroke: #0b6e69 } .c3 { stroke: #1d4ed8 }
.c4 { stroke: #a21caf } .c5 { stroke: #854d0e } .c6 { stroke: #4d7c0f } .c7 { stroke: #be123c }
@media (prefers-color-scheme: dark) {
text { fill: #e4e8ec }
.soft { fill: #9aa5b1 }
.paper { fill: #14171b }
.grid { stroke: #2c323a }
.bound { fill: #2b333d }
.c0 { stroke: #9aa5b1 } .c1 { stroke: #fb923c } .c2 { stroke: #4fc3b5 } .c3 { stroke: #7aa2ff }
.c4 { stroke: #e879f9 } .c5 { stroke: #e0b35a } .c6 { stroke: #a3e635 } .c7 { stroke: #fb7185 }
}
`

// drawSimulation draws the hours as an SVG, one line for each setting: the cost beside the bound, and the waiting pods.
func drawSimulation(results []*simulator.Result, days float64) string {
	first := results[0]
	costTop := legendTop + legendRow*(len(results)+2) + 34
	waitTop := costTop + costHeight + 66
	height := waitTop + waitHeight + 40
	var b strings.Builder
	draw := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	text := func(x, y int, class, words string) {
		draw(`<text x="%d" y="%d" class="%s">%s</text>`, x, y, class, html.EscapeString(words))
	}
	title := fmt.Sprintf("%s from %s", dayWords(days), first.Begin.UTC().Format("Mon 2 Jan 2006 15:04 MST"))
	draw(`<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="title" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d">`, pictureWidth, height)
	draw("<title id=\"title\">What %s cost with %s</title>\n<style>\n%s</style>", html.EscapeString(title), html.EscapeString(strings.Join(pictureNames(results), ", ")), pictureStyle)
	draw(`<rect class="paper" width="%d" height="%d"/>`, pictureWidth, height)
	text(plotLeft, 30, "title", title)
	text(plotLeft, 50, "soft", fmt.Sprintf("tenon simulate, seed %d, cloud %s", first.Seed, first.Profile))
	drawLegend(results, draw, text)

	cost := panel{top: costTop, height: costHeight, hours: len(first.Hours)}
	wait := panel{top: waitTop, height: waitHeight, hours: len(first.Hours)}
	for _, r := range results {
		for _, h := range r.Hours {
			cost.most, wait.most = max(cost.most, h.CostPerHour), max(wait.most, h.Waiting)
			if h.BoundPerHour != nil {
				cost.most = max(cost.most, *h.BoundPerHour)
			}
		}
	}
	if first.Bound > 0 {
		draw(`<path class="bound" d="%sV%s H%d Z"/>`, cost.steps(fill(seriesOf(first, boundOf))), coordinate(cost.y(0)), plotLeft)
	}
	cost.axes(first, "USD per hour", draw, text)
	wait.axes(first, "Pods waiting", draw, text)
	for i, r := range results {
		draw(`<path class="%s" d="%s"/>`, lineClass(i), cost.steps(seriesOf(r, func(h *simulator.Hour) float64 { return h.CostPerHour })))
		draw(`<path class="%s" d="%s"/>`, lineClass(i), wait.steps(seriesOf(r, func(h *simulator.Hour) float64 { return h.Waiting })))
	}
	draw("</svg>")
	return b.String()
}

// drawLegend draws the names of the lines and the result of each setting.
func drawLegend(results []*simulator.Result, draw func(format string, args ...any), text func(x, y int, class, words string)) {
	columns := []int{plotLeft + 40, plotLeft + 300, plotLeft + 400, plotLeft + 520, plotLeft + 650}
	y := legendTop + 16
	for i, word := range []string{"", "USD", "above bound", "99 % of pods wait", "evictions per pod and day"} {
		text(columns[i], y, "soft", word)
	}
	for i, r := range results {
		y += legendRow
		draw(`<path class="%s" d="M%d %d h28"/>`, lineClass(i), plotLeft, y-4)
		for j, word := range []string{pictureNames(results)[i], fmt.Sprintf("%.2f", r.Cost), percent(r.Gap), fmt.Sprintf("%.0fs", r.Waited.P99), fmt.Sprintf("%.3f", r.EvictionsPerPodDay)} {
			text(columns[j], y, "name", word)
		}
	}
	if y += legendRow; results[0].Bound > 0 {
		draw(`<rect class="bound" x="%d" y="%d" width="28" height="12"/>`, plotLeft, y-10)
		text(columns[0], y, "name", "the bound: no plan costs less")
		text(columns[1], y, "name", fmt.Sprintf("%.2f", results[0].Bound))
	}
}

// pictureNames returns the names of the settings. The setting without changes has a name of its own here.
func pictureNames(results []*simulator.Result) []string {
	var out []string
	for _, r := range results {
		name := settingName(r)
		if name == "" {
			name = "the pools as they are"
		}
		out = append(out, name)
	}
	return out
}

// lineClass returns the CSS classes of the i-th setting: its colour, and dashes if the colour was used before.
func lineClass(i int) string {
	class := fmt.Sprintf("line c%d", i%8)
	if i >= 8 {
		class += " again"
	}
	return class
}

func boundOf(h *simulator.Hour) float64 {
	if h.BoundPerHour == nil {
		return math.NaN()
	}
	return *h.BoundPerHour
}

func seriesOf(r *simulator.Result, of func(h *simulator.Hour) float64) []float64 {
	out := make([]float64, len(r.Hours))
	for i := range r.Hours {
		out[i] = of(&r.Hours[i])
	}
	return out
}

// panel is one plot: hours from left to right, values from 0 at the bottom to most.
type panel struct {
	top, height, hours int
	most               float64
}

func (p *panel) x(hour int) float64 { return plotLeft + float64(plotWidth*hour)/float64(p.hours) }

func (p *panel) y(value float64) float64 {
	return float64(p.top+p.height) - float64(float64(p.height)*value/p.end())
}

// tick returns the distance of ticks: 1, 2 or 5 times a power of ten, so that there are three to seven.
func (p *panel) tick() float64 {
	most := p.most
	if most <= 0 {
		most = 1
	}
	power := math.Pow(10, math.Floor(math.Log10(most/3)))
	for _, times := range []float64{5, 2} {
		if times*power <= most/3 {
			return times * power
		}
	}
	return power
}

// end returns the first tick at or above all values.
func (p *panel) end() float64 { return p.tick() * max(1, math.Ceil(p.most/p.tick())) }

// steps draws hours as steps. The height of a step is the hour's mean.
func (p *panel) steps(points []float64) string {
	var b strings.Builder
	for i, value := range points {
		if i == 0 {
			fmt.Fprintf(&b, "M%d %s ", plotLeft, coordinate(p.y(value)))
		} else {
			fmt.Fprintf(&b, "V%s ", coordinate(p.y(value)))
		}
		fmt.Fprintf(&b, "H%s ", coordinate(p.x(i+1)))
	}
	return b.String()
}

func (p *panel) axes(r *simulator.Result, name string, draw func(format string, args ...any), text func(x, y int, class, words string)) {
	text(plotLeft, p.top-12, "head", name)
	for n := 0; float64(float64(n)*p.tick()) <= p.end()*(1+1e-9); n++ {
		value := float64(float64(n) * p.tick())
		draw(`<path class="grid" d="M%d %s h%d"/>`, plotLeft, coordinate(p.y(value)), plotWidth)
		draw(`<text x="%d" y="%s" class="soft" text-anchor="end">%.6g</text>`, plotLeft-8, coordinate(p.y(value)+4), value)
	}
	each := timeStep(p.hours)
	for i, h := range r.Hours {
		at := h.Begin.UTC()
		if int(at.Sub(at.Truncate(24*time.Hour)).Hours())%min(each, 24) != 0 || each > 24 && int(at.Unix()/86400)%(each/24) != 0 {
			continue
		}
		words := at.Format("15:04")
		if at.Hour() == 0 {
			words = at.Format("Mon 2 Jan")
		}
		draw(`<path class="grid" d="M%s %d v%d"/>`, coordinate(p.x(i)), p.top, p.height+5)
		draw(`<text x="%s" y="%d" class="soft" text-anchor="middle">%s</text>`, coordinate(p.x(i)), p.top+p.height+20, words)
	}
}

// timeStep returns the number of hours between two written times, so that there are at most twelve.
func timeStep(hours int) int {
	for _, step := range []int{1, 2, 3, 6, 12, 24, 48, 96, 168} {
		if hours <= 12*step {
			return step
		}
	}
	return 24 * 31
}

func coordinate(x float64) string { return fmt.Sprintf("%.1f", x) }
