package cli

import (
	"fmt"
	"math"
	"strings"
)

// plotColumns is the largest width of a plot. If there are more points, neighbours are combined.
const plotColumns = 84

// squeeze returns at most plotColumns points of a series. Each point is the mean of equally many neighbours.
func squeeze(points []float64) []float64 {
	each := (len(points) + plotColumns - 1) / plotColumns
	var out []float64
	for begin := 0; begin < len(points); begin += max(each, 1) {
		end := min(begin+each, len(points))
		sum := 0.0
		for _, p := range points[begin:end] {
			sum += p
		}
		out = append(out, sum/float64(end-begin))
	}
	return out
}

// fill replaces unknown values (NaN) by a straight line between their neighbours.
func fill(points []float64) []float64 {
	out := make([]float64, len(points))
	last := -1
	for i, p := range points {
		if math.IsNaN(p) {
			continue
		}
		for j := last + 1; j < i; j++ {
			out[j] = p
			if last >= 0 {
				out[j] = points[last] + float64((p-points[last])*float64(j-last)/float64(i-last))
			}
		}
		out[i], last = p, i
	}
	for j := last + 1; j < len(out) && last >= 0; j++ {
		out[j] = points[last]
	}
	return out
}

// spark draws a series as one line of blocks, from 0 to its largest value.
func spark(points []float64) string {
	most := 0.0
	for _, p := range points {
		most = max(most, p)
	}
	var b strings.Builder
	for _, p := range points {
		level := 0
		if most > 0 {
			level = int(math.Round(8 * p / most))
		}
		if p > 0 && level == 0 {
			level = 1
		}
		b.WriteRune([]rune(" ▁▂▃▄▅▆▇█")[level])
	}
	return strings.TrimRight(b.String(), " ")
}

// plotRows is the height of a plot.
const plotRows = 8

// stack draws two series above each other: full blocks up to lower, light blocks from there to upper. Each line begins with the scale.
func stack(lower, upper []float64) []string {
	most := 0.0
	for i := range upper {
		most = max(most, upper[i], lower[i])
	}
	top := niceTop(most)
	var lines []string
	for row := range plotRows {
		middle := top * (float64(plotRows-row) - 0.5) / plotRows
		scale := ""
		if row%2 == 0 {
			scale = fmt.Sprintf("%.3g", top*float64(plotRows-row)/plotRows)
		}
		var b strings.Builder
		fmt.Fprintf(&b, "%8s │", scale)
		for i := range upper {
			switch {
			case lower[i] >= middle:
				b.WriteRune('█')
			case upper[i] >= middle:
				b.WriteRune('░')
			default:
				b.WriteRune(' ')
			}
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	return append(lines, fmt.Sprintf("%8s └%s", "0", strings.Repeat("─", len(upper))))
}

// niceTop returns the least round number that is not below the value: one of the factors times a power of ten.
func niceTop(value float64) float64 {
	if value <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(value)))
	for _, factor := range []float64{1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8} {
		if factor*power >= value {
			return factor * power
		}
	}
	return 10 * power
}
