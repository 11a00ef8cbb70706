package prometheus_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A pace is by how much all times are divided that Prometheus is told, and how long it waits at least from one scrape to the next.
type pace struct {
	times int
	least time.Duration
}

// short is a time of the real world, as Prometheus writes it, in the test's.
func (p pace) short(text string) (string, error) {
	d, err := parseDuration(text)
	if err != nil {
		return "", err
	}
	return milliseconds(d / time.Duration(p.times)), nil
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }

// scrape is how often Prometheus scrapes what it is to scrape so often.
func (p pace) scrape(text string) (time.Duration, error) {
	d, err := parseDuration(text)
	return max(p.least, d/time.Duration(p.times)), err
}

var (
	unit         = map[string]time.Duration{"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}
	durationText = regexp.MustCompile(`^(\d+)(ms|s|m|h|d)$`)
	// window is a range of a query, with the steps of a subquery if there are any.
	window = regexp.MustCompile(`\[(\d+(?:ms|s|m|h|d))(?::(\d+(?:ms|s|m|h|d)))?\]`)
	// seconds is a comparison of a metric that is in seconds with a number.
	seconds = regexp.MustCompile(`(_seconds(?:_bucket)?(?:\{[^}]*\}|\[[^\]]*\]|[)\s])*>\s*)(\d+)\b`)
)

func parseDuration(text string) (time.Duration, error) {
	parts := durationText.FindStringSubmatch(text)
	if parts == nil {
		return 0, fmt.Errorf("%q is not a time such as 10m", text)
	}
	n, err := strconv.Atoi(parts[1])
	return time.Duration(n) * unit[parts[2]], err
}

// query divides what is a time in a query: its ranges, and the numbers that metrics in seconds are compared with. All else
// stays as it is. So a query means for a cluster in which everything happens so much faster what it was written to mean.
func (p pace) query(query string) (string, error) {
	var failed error
	shorten := func(text string) string {
		out, err := p.short(text)
		if err != nil && failed == nil {
			failed = fmt.Errorf("%s: %w", query, err)
		}
		return out
	}
	query = window.ReplaceAllStringFunc(query, func(match string) string {
		parts := window.FindStringSubmatch(match)
		if parts[2] == "" {
			return "[" + shorten(parts[1]) + "]"
		}
		return "[" + shorten(parts[1]) + ":" + shorten(parts[2]) + "]"
	})
	return seconds.ReplaceAllStringFunc(query, func(match string) string {
		parts := seconds.FindStringSubmatch(match)
		n, _ := strconv.Atoi(parts[2]) // it is a row of digits
		return parts[1] + strconv.FormatFloat(float64(n)/float64(p.times), 'f', -1, 64)
	}), failed
}

// rule does the same to a rule, and to how long it has to hold.
func (p pace) rule(rule map[string]any) error {
	query, err := p.query(rule["expr"].(string))
	if err != nil {
		return err
	}
	rule["expr"] = query
	if wait, ok := rule["for"].(string); ok {
		rule["for"], err = p.short(wait)
	}
	return err
}

func TestRulesAreMadeFasterAndNothingElse(t *testing.T) {
	p := pace{times: 60}
	for query, want := range map[string]string{
		`sum(rate(a_total{error!="b"}[10m])) > 0`:                        `sum(rate(a_total{error!="b"}[10000ms])) > 0`,
		`sum_over_time(a:b:sum[1d:1m]) / 60`:                             `sum_over_time(a:b:sum[1440000ms:1000ms]) / 60`,
		`max by (name) (a_seconds{type="B", status!="True"}) > 3600`:     `max by (name) (a_seconds{type="B", status!="True"}) > 60`,
		`histogram_quantile(0.9, sum(rate(a_seconds_bucket[15m]))) > 30`: `histogram_quantile(0.9, sum(rate(a_seconds_bucket[15000ms]))) > 0.5`,
		`sum(increase(a_total[90m])) > 2`:                                `sum(increase(a_total[90000ms])) > 2`,
		`sum(rate(a_seconds_count{b="c"}[10m])) == 0`:                    `sum(rate(a_seconds_count{b="c"}[10000ms])) == 0`,
	} {
		if got, err := p.query(query); err != nil || got != want {
			t.Errorf("%s becomes %s, %v, want %s", query, got, err, want)
		}
	}
	if _, err := p.short("a while"); err == nil || !strings.Contains(err.Error(), `"a while" is not a time`) {
		t.Error(err)
	}
}
