package dashboard

import (
	"cmp"
	"slices"
)

// squarify divides a rectangle among sizes, in falling order, into rectangles that are nearly squares: it fills rows along the shorter
// side as long as the worst shape in a row gets no worse (Bruls, Huizing, van Wijk: Squarified Treemaps, 2000).
func squarify(sizes []float64, into rect) []rect {
	out := make([]rect, 0, len(sizes))
	total := 0.0
	for _, s := range sizes {
		total += s
	}
	if total <= 0 {
		return out
	}
	scale := into.w * into.h / total
	for at := 0; at < len(sizes); {
		side := min(into.w, into.h)
		end, sum := at+1, sizes[at]*scale
		for end < len(sizes) && worst(sizes[at]*scale, sizes[end]*scale, sum+sizes[end]*scale, side) <= worst(sizes[at]*scale, sizes[end-1]*scale, sum, side) {
			sum += sizes[end] * scale
			end++
		}
		out, into = fillRow(out, sizes[at:end], scale, sum, into)
		at = end
	}
	return out
}

// worst is the worst relation of sides in a row of areas from largest to smallest, which add up to sum, along a side.
func worst(largest, smallest, sum, side float64) float64 {
	if sum == 0 || smallest == 0 {
		return 0
	}
	return max(side*side*largest/(sum*sum), sum*sum/(side*side*smallest))
}

// fillRow lays a row along the shorter side and returns the rest of the rectangle.
func fillRow(out []rect, sizes []float64, scale, sum float64, into rect) ([]rect, rect) {
	if into.w >= into.h {
		width, y := 0.0, into.y
		if into.h > 0 {
			width = sum / into.h
		}
		for _, s := range sizes {
			h := 0.0
			if width > 0 {
				h = s * scale / width
			}
			out = append(out, rect{into.x, y, width, h})
			y += h
		}
		return out, rect{into.x + width, into.y, max(0, into.w-width), into.h}
	}
	height, x := 0.0, into.x
	if into.w > 0 {
		height = sum / into.w
	}
	for _, s := range sizes {
		w := 0.0
		if height > 0 {
			w = s * scale / height
		}
		out = append(out, rect{x, into.y, w, height})
		x += w
	}
	return out, rect{into.x, into.y + height, into.w, max(0, into.h-height)}
}

// bySize returns the indexes of sizes from the largest size to the smallest; equal sizes stay in order.
func bySize(sizes []float64) []int {
	order := make([]int, len(sizes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(sizes[b], sizes[a]) })
	return order
}
