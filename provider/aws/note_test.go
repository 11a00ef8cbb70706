package aws_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/api/awsv1"
)

// logged returns a context, and a function that returns the lines logged with it that contain a part.
func logged(ctx context.Context) (context.Context, func(part string) []string) {
	var mu sync.Mutex // guards lines
	var lines []string
	logger := funcr.New(func(prefix, args string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, args)
	}, funcr.Options{})
	return log.IntoContext(ctx, logr.New(logger.GetSink())), func(part string) []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return !strings.Contains(l, part) })
	}
}

func TestUserDataThatIsNearlyTooLargeIsLoggedOnce(t *testing.T) {
	t.Parallel()
	const about = "user data is nearly as large"
	w := newWorld(t, untried)
	custom := func(bytes int) func(c *awsv1.EC2NodeClass) {
		return func(c *awsv1.EC2NodeClass) {
			c.Spec.AMIFamily, c.Spec.AMISelectorTerms = new("Custom"), []awsv1.AMISelectorTerm{{Name: "amazon-eks-node-al2023-x86_64-standard-*"}}
			c.Spec.UserData = new(strings.Repeat("x", bytes))
		}
	}
	ctx, lines := logged(t.Context())
	launch := func(name string, c *awsv1.EC2NodeClass) {
		t.Helper()
		claim := w.claim(name, c, in(corev1.LabelInstanceTypeStable, "m5.large"), in("example.com/name", name))
		if _, err := w.provider.Launch(ctx, claim, seen(c)); err != nil {
			t.Fatal(err)
		}
	}
	fits := w.resolved("fits", custom(14744))
	launch("a", fits)
	if got := lines(about); len(got) > 0 {
		t.Errorf("14744 bytes: %s", got)
	}
	large := w.resolved("large", custom(14745))
	launch("b", large)
	launch("c", large)
	if got := lines(about); len(got) != 1 || !strings.Contains(got[0], `"EC2NodeClass"="large" "bytes"=14745 "limit"=16384`) {
		t.Errorf("two machines with 14745 bytes each: %q", got)
	}
	w.clock.Step(time.Hour)
	launch("d", large)
	if got := lines(about); len(got) != 2 {
		t.Errorf("an hour later: %q", got)
	}
}

func TestAVersionThatIsNotSupportedIsLoggedOnce(t *testing.T) {
	t.Parallel()
	for minor, want := range map[string]int{"25": 1, "26": 0, "36": 0, "37": 1} {
		t.Run("1."+minor, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, untriedOn("1", minor))
			ctx, lines := logged(t.Context())
			for range 3 {
				c := &awsv1.EC2NodeClass{}
				if err := w.client.Get(ctx, nameOf("general"), c); err != nil {
					c = w.class("general", nil)
				}
				if _, err := w.provider.Resolve(ctx, seen(c)); err != nil {
					t.Fatal(err)
				}
				w.clock.Step(6 * time.Minute)
			}
			got := lines(fmt.Sprintf("runs Kubernetes 1.%s, which is not among the versions 1.26 to 1.36", minor))
			if len(got) != want {
				t.Errorf("%d lines, want %d: %q", len(got), want, got)
			}
		})
	}
}
