package dashboard

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"tenon.sh/engine"
)

// dollars writes an amount per hour as the command line does.
func dollars(usd float64) string { return engine.Dollars(usd) }

// price writes four decimals, as tenon nodes does.
func price(usd float64) string { return fmt.Sprintf("%.4f", usd) }

// monthly returns an amount per hour as an amount per month.
func monthly(usd float64) string { return fmt.Sprintf("$%.2f", engine.HoursPerMonth*usd) }

// percent writes a share in whole percent.
func percent(of float64) string { return fmt.Sprintf("%.0f %%", 100*of) }

// tenths writes a number with one decimal, unless the decimal is 0.
func tenths(x float64) string { return strconv.FormatFloat(math.Round(x*10)/10, 'f', -1, 64) }

func gib(bytes float64) string { return tenths(bytes/(1<<30)) + " GiB" }

// count writes a number of things.
func count(n int, of string) string {
	return fmt.Sprintf("%d %s", n, noun(n, of))
}

// noun returns the word for one thing, or for several.
func noun(n int, one string) string {
	if n == 1 {
		return one
	}
	return one + "s"
}

// priceOr writes a price, or a dash if it is unknown.
func priceOr(usd *float64) string {
	if usd == nil {
		return "-"
	}
	return price(*usd)
}

func cents(usd float64) string { return fmt.Sprintf("%.2f", usd) }

// gap writes how far a price is above the least possible price.
func gap(of float64) string { return fmt.Sprintf("%.1f %%", 100*of) }

// exact writes a time for people, machine for programs.
func exact(t time.Time) string   { return t.UTC().Format(exactTime) }
func machine(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// ageWords writes an age in its two largest units.
func ageWords(age time.Duration) string {
	days, hours, minutes := int(age.Hours())/24, int(age.Hours())%24, int(age.Minutes())%60
	switch {
	case days > 0:
		return fmt.Sprintf("%dd%dh", days, hours)
	case hours > 0:
		return fmt.Sprintf("%dh%dm", hours, minutes)
	}
	return fmt.Sprintf("%dm%ds", minutes, int(age.Seconds())%60)
}

// capital begins a text with a capital letter.
func capital(text string) string {
	_, first := utf8.DecodeRuneInString(text)
	return strings.ToUpper(text[:first]) + text[first:]
}

// barWidth returns the part of a bar of 100 units that a share fills.
func barWidth(of float64) int { return int(math.Round(100 * min(1, max(0, of)))) }
