package convert_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tenon.sh/convert"
)

// The guide lists the metrics that convert names, and the metrics that convert recommends are served.
func TestTheGuideListsTheOldMetrics(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../docs/guide/migrate.md")
	if err != nil {
		t.Fatal(err)
	}
	served, err := os.ReadFile("../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []convert.Metric
	for _, row := range regexp.MustCompile("(?m)^\\| `(karpenter_\\w+)` \\| (?:`(\\w+)`|nothing) \\|$").FindAllStringSubmatch(string(guide), -1) {
		listed = append(listed, convert.Metric{Old: row[1], New: row[2]})
	}
	if !slices.Equal(listed, convert.OldMetrics()) {
		t.Errorf("the guide lists\n%v, convert names\n%v", listed, convert.OldMetrics())
	}
	for _, m := range convert.OldMetrics() {
		if strings.Contains(string(served), "| `"+m.Old+"` |") {
			t.Errorf("%s is served", m.Old)
		}
		if m.New != "" && !strings.Contains(string(served), "| `"+m.New+"` |") {
			t.Errorf("%s is not served", m.New)
		}
	}
}
