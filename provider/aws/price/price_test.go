package price_test

import (
	"os"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"tenon.sh/provider/aws/awstest"
	"tenon.sh/provider/aws/cloud"
	"tenon.sh/provider/aws/price"
)

func TestMain(m *testing.M) { os.Exit(awstest.Run(m)) }

func newPrices(t *testing.T, region string, isolated bool) (*price.Prices, *awstest.Account, *clocktesting.FakeClock) {
	t.Helper()
	account := awstest.New(t)
	sdk := account.Config()
	sdk.Region = region
	c, err := cloud.New(sdk)
	if err != nil {
		t.Fatal(err)
	}
	clock := clocktesting.NewFakeClock(time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC))
	return price.New(c, clock, isolated, map[string]float64{"m5.large": 1, "old.large": 2}), account, clock
}

func TestPrices(t *testing.T) {
	t.Parallel()
	spot := map[[2]string]float64{{"m5.large", "us-west-2a"}: 0.01}
	listed := map[string]float64{"m5.large": 0.1, "m5.metal": 4}
	for _, test := range []struct {
		rule     string
		region   string
		isolated bool
		prepare  func(a *awstest.Account)
		fails    string
		// The prices of m5.large, m5.metal and old.large on demand, and of m5.large spot in two zones; 0 for none.
		want  [5]float64
		stale string
	}{
		{"before anything was asked", "", false, nil, "", [5]float64{1, 0, 2, 1, 1}, "on-demand prices were never told"},
		{"both kinds", "us-west-2", false, func(a *awstest.Account) { a.SetPrices(listed); a.SetSpotPrices(spot) }, "", [5]float64{0.1, 4, 2, 0.01, 0}, ""},
		{"no spot prices", "us-west-2", false, func(a *awstest.Account) {
			a.SetPrices(listed)
			a.SetSpotPrices(map[[2]string]float64{})
		}, "ask for spot prices", [5]float64{0.1, 4, 2, 0.1, 0.1}, "on-demand prices are used"},
		{"no prices on demand", "us-west-2", false, func(a *awstest.Account) {
			a.Fail("pricing:GetProducts", awstest.Fault{Status: 500, Code: "InternalErrorException"})
			a.SetSpotPrices(spot)
		}, "ask for on-demand prices", [5]float64{1, 0, 2, 0.01, 0}, "those of us-east-1"},
		{"none of bare metal", "us-west-2", false, func(a *awstest.Account) {
			a.SetPrices(map[string]float64{"m5.large": 0.1})
			a.SetSpotPrices(spot)
		}, "names none", [5]float64{1, 0, 2, 0.01, 0}, "never told"},
		{"a region without a price list", "us-gov-west-1", false, func(a *awstest.Account) { a.SetPrices(listed); a.SetSpotPrices(spot) }, "", [5]float64{1, 0, 2, 0.01, 0}, ""},
		{"an isolated network", "us-west-2", true, func(a *awstest.Account) { a.SetPrices(listed); a.SetSpotPrices(spot) }, "", [5]float64{1, 0, 2, 0.01, 0}, ""},
		{"another currency than is listed", "cn-north-1", false, func(a *awstest.Account) { a.SetPrices(listed); a.SetSpotPrices(spot) }, "names none", [5]float64{1, 0, 2, 0.01, 0}, "never told"},
	} {
		t.Run(test.rule, func(t *testing.T) {
			t.Parallel()
			region := test.region
			if region == "" {
				region = "us-west-2"
			}
			p, account, _ := newPrices(t, region, test.isolated)
			if test.prepare != nil {
				test.prepare(account)
				err := p.Refresh(t.Context())
				if test.fails == "" && err != nil || test.fails != "" && (err == nil || !strings.Contains(err.Error(), test.fails)) {
					t.Errorf("error %v, want %q", err, test.fails)
				}
			}
			var got [5]float64
			book := p.Book()
			for i, kind := range []string{"m5.large", "m5.metal", "old.large"} {
				got[i], _ = book.OnDemand(kind)
			}
			got[3], _ = book.Spot("m5.large", "us-west-2a")
			got[4], _ = book.Spot("m5.large", "us-west-2b")
			if got != test.want {
				t.Errorf("prices %v, want %v", got, test.want)
			}
			if stale := p.Stale(time.Hour); !strings.Contains(stale, test.stale) || test.stale == "" && stale != "" {
				t.Errorf("stale: %q, want %q", stale, test.stale)
			}
		})
	}
}

func TestAllPagesOfThePriceListAreRead(t *testing.T) {
	t.Parallel()
	p, account, clock := newPrices(t, "us-west-2", false)
	if err := p.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if calls := len(account.Calls("pricing:GetProducts")); calls < 10 {
		t.Errorf("%d pages", calls)
	}
	if got, known := p.OnDemand("z1d.xlarge"); !known || got != 0.372 {
		t.Errorf("the last type costs %v", got)
	}
	before := p.Book().Edit
	if err := p.Refresh(t.Context()); err != nil || p.Book().Edit != before {
		t.Errorf("the same prices again are another book: %v", err)
	}
	clock.Step(30 * time.Hour)
	if got := p.Stale(24 * time.Hour); !strings.Contains(got, "on-demand prices are 30h0m0s old; spot prices are 30h0m0s old") {
		t.Errorf("stale: %q", got)
	}
}
