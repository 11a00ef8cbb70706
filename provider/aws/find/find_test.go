package find_test

import (
	"os"
	"slices"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"tenon.sh/provider/aws/awstest"
	"tenon.sh/provider/aws/cloud"
	"tenon.sh/provider/aws/find"
)

func TestMain(m *testing.M) { os.Exit(awstest.Run(m)) }

type fixture struct {
	*find.Finder
	account *awstest.Account
	clock   *clocktesting.FakeClock
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	account := awstest.New(t)
	c, err := cloud.New(account.Config())
	if err != nil {
		t.Fatal(err)
	}
	clock := clocktesting.NewFakeClock(time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC))
	return fixture{find.New(find.Config{Cloud: c, Clock: clock, Cluster: awstest.Cluster}), account, clock}
}

func sorted(in []string) []string { return slices.Sorted(slices.Values(in)) }
