package expression_test

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"sync"
	"testing"

	"tenon.sh/provider/aws/expression"
)

var m5 = expression.Variables{InstanceType: "m5.large", VCPUs: 2, MemoryMiB: 8192, DefaultENIs: 3, IPsPerENI: 10, MaxPods: 29}

func TestExpressionsAreComputed(t *testing.T) {
	t.Parallel()
	c := expression.New()
	for text, want := range map[string]int64{
		"default_enis * (ips_per_eni - 1) + 2":                  29,
		"min((default_enis - 1) * (ips_per_eni - 1) * 16, 110)": 110,
		"vcpus * 10 + 50":           70,
		"memory_mib * 5 / 100":      409,
		"min(max_pods, 20)":         20,
		"max(3, 7)":                 7,
		"max(7, 3)":                 7,
		"min(3, 7)":                 3,
		"max(3, 7.9)":               7,
		"max(3.9, 7)":               7,
		"min(3, 7.9)":               3,
		"min(3.9, 7)":               3,
		"min(3.9, 7.9)":             3,
		"max(3.9, 7.9)":             7,
		"double(memory_mib) * 0.05": 409,
		"-1.9":                      -1,
		"vcpus - 10":                -8,
		`instance_type.startsWith("m5.") ? 1 : 2`: 1,
		"255 + 11 * max_pods":                     574,
	} {
		if got, err := c.Number(text, m5); got != want || err != nil {
			t.Errorf("%s is %d, %v; want %d", text, got, err, want)
		}
	}
	large := expression.Variables{InstanceType: "u-24tb1.metal", VCPUs: 448, MemoryMiB: 25165824, DefaultENIs: 15, IPsPerENI: 50, MaxPods: 737}
	if got, err := c.Number("memory_mib * 5 / 100", large); got != 1258291 || err != nil {
		t.Errorf("of a large machine: %d, %v", got, err)
	}
}

func TestWhatIsNoNumberIsAnError(t *testing.T) {
	t.Parallel()
	c := expression.New()
	for _, text := range []string{"", "  ", "vcpus +", "nothing * 2", "vcpus > 1", `"a"`, "[1]", "max(1)", `max("a", "b")`} {
		if err := c.Check(text); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want an error of one line", text, err)
		}
	}
	for _, text := range []string{"vcpus / 0", "vcpus % 0", "1.0 / 0.0", "0.0 / 0.0", "9223372036854775807 + vcpus", "1e300"} {
		if err := c.Check(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if got, err := c.Number(text, m5); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}

func TestWhatIsKeptBackHasUnitsAndIsRoundedUp(t *testing.T) {
	t.Parallel()
	c := expression.New()
	nearMax := fmt.Sprint(math.MaxInt64 - 1)
	for _, test := range []struct{ name, text, want string }{
		{"cpu", "100m", "100m"},
		{"cpu", "vcpus * 35", "70m"},
		{"cpu", "vcpus * 35 + 1", "80m"},
		{"cpu", "0 * vcpus", "0m"},
		{"memory", "memory_mib / 16", "512Mi"},
		{"memory", "memory_mib / 16 + 1", "528Mi"},
		{"memory", nearMax + " + 0", nearMax + "Mi"},
		{"ephemeral-storage", "vcpus + 1", "3Gi"},
		{"pid", "max_pods * 10", "290"},
		{"cpu", "2.9 * double(vcpus)", "10m"},
		{"cpu", "vcpus - 5", ""},
		{"cpu", "vcpus / 0", ""},
	} {
		got, problems := c.Reserved(map[string]string{test.name: test.text, "unit": "1"}, m5)
		want := map[string]string{"unit": "1"}
		if test.want != "" {
			want[test.name] = test.want
		}
		if !maps.Equal(got, want) || (len(problems) == 0) != (test.want != "") {
			t.Errorf("%s = %s: got %v, %v; want %v", test.name, test.text, got, problems, want)
		}
	}
	if got, problems := c.Reserved(nil, m5); got != nil || problems != nil {
		t.Errorf("of nothing: %v, %v", got, problems)
	}
}

func TestManyMayComputeAtOnce(t *testing.T) {
	t.Parallel()
	c := expression.New()
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			if got, err := c.Number(fmt.Sprintf("vcpus + %d", i%5), m5); got != int64(2+i%5) || err != nil {
				t.Errorf("got %d, %v", got, err)
			}
		})
	}
	group.Wait()
}
