package cli

import (
	"unicode/utf8"
)

const (
	columnGap = 2 // characters between two columns of a table
	// leastColumn is the least width of a column on a narrow terminal. leastText is the least width of the last column, which is prose.
	leastColumn, leastText = 6, 24
)

// tableWidth returns the length of the table's longest line.
func tableWidth(rows [][]string) int {
	total := -columnGap
	for _, w := range columnWidths(rows) {
		total += w + columnGap
	}
	return total
}

// leastWidth returns the length of the table's longest line if the prose of the last column is cut to leastText.
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

// fit cuts cells so that no line of the table is longer than columns; 0 cuts nothing. It cuts the last column first, which is prose, and
// drops the column if too little of it is left. Then it cuts the widest columns.
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

// cut returns the table with the given widths as limits of the columns.
func cut(rows [][]string, width []int) [][]string {
	out := make([][]string, len(rows))
	for n, row := range rows {
		for i, w := range width {
			out[n] = append(out[n], shortened(row[i], w))
		}
	}
	return out
}

// shortened cuts the text to a number of characters and replaces the rest by an ellipsis.
func shortened(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}
