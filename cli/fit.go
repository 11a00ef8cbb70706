package cli

import (
	"unicode/utf8"
)

const (
	columnGap = 2 // characters between two columns of a table
	// leastColumn is the width that a column keeps however narrow the terminal is, leastText that of the last column, which is prose.
	leastColumn, leastText = 6, 24
)

// tableWidth is how long the longest line of the table is.
func tableWidth(rows [][]string) int {
	total := -columnGap
	for _, w := range columnWidths(rows) {
		total += w + columnGap
	}
	return total
}

// leastWidth is the same with the prose of the last column cut as far as may be.
func leastWidth(rows [][]string) int {
	width := columnWidths(rows)
	prose := width[len(width)-1]
	return tableWidth(rows) - prose + min(prose, leastText)
}

func columnWidths(rows [][]string) []int {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	return width
}

// fit cuts cells so that no line of the table is longer than columns; 0 cuts nothing. The last column, which is prose, is cut first; a
// column of prose for which too little is left is dropped. After that the widest columns are cut.
func fit(rows [][]string, columns int) [][]string {
	excess := tableWidth(rows) - columns
	if columns <= 0 || excess <= 0 {
		return rows
	}
	width := columnWidths(rows)
	last := len(width) - 1
	if leastWidth(rows) <= columns {
		width[last] -= excess
		return cut(rows, width)
	}
	if width[last] > leastText {
		excess -= width[last] + columnGap
		width = width[:last]
	}
	for ; excess > 0; excess-- {
		widest := 0
		for i := range width {
			if width[i] > width[widest] {
				widest = i
			}
		}
		if width[widest] <= leastColumn {
			break
		}
		width[widest]--
	}
	return cut(rows, width)
}

// cut is the table with columns of these widths at most.
func cut(rows [][]string, width []int) [][]string {
	out := make([][]string, len(rows))
	for n, row := range rows {
		for i, w := range width {
			out[n] = append(out[n], shortened(row[i], w))
		}
	}
	return out
}

// shortened is the text in so many characters, with an ellipsis in the place of the rest.
func shortened(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}
