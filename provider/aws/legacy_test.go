package aws_test

import (
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"tenon.sh/api/awsv1"
	"tenon.sh/provider/aws"
	"tenon.sh/provider/aws/awstest"
)

// legacyName is the name that earlier versions gave the profile of class general of cluster demo in us-west-2. The hash is FNV-1 of the
// region and the name, with 64 bits.
const legacyName = "demo_7791149067755611850"

// legacy creates an instance profile like earlier versions, for a class of a cluster.
func (w *world) legacy(cluster, class string) {
	w.Helper()
	client := iam.NewFromConfig(w.account.Config())
	_, err := client.CreateInstanceProfile(w.Context(), &iam.CreateInstanceProfileInput{
		InstanceProfileName: awssdk.String(legacyName),
		Tags: []iamtypes.Tag{
			{Key: awssdk.String("kubernetes.io/cluster/" + cluster), Value: awssdk.String("owned")},
			{Key: awssdk.String(awsv1.NodeClassLabelKey), Value: awssdk.String(class)},
		},
	})
	w.must(err)
	_, err = client.AddRoleToInstanceProfile(w.Context(), &iam.AddRoleToInstanceProfileInput{InstanceProfileName: awssdk.String(legacyName), RoleName: awssdk.String("nodes")})
	w.must(err)
}

func TestTheProfileOfAnEarlierVersionGoesWithItsClass(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cluster, class string
		change         func(*aws.Config)
		left           int
	}{
		"made for it":            {"demo", "general", untried, 0},
		"made for another class": {"demo", "other", untried, 1},
		"of another cluster":     {"prod", "general", untried, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, test.change)
			w.legacy(test.cluster, test.class)
			c := w.resolved("general", nil)
			w.clean()
			w.must(w.client.Get(t.Context(), nameOf("general"), c))
			w.must(w.client.Delete(t.Context(), c))

			w.account.Fail("iam:GetInstanceProfile", awstest.Fault{Status: 500, Code: "ServiceFailure"})
			if err := w.provider.Clean(t.Context()); err == nil {
				t.Error("the class goes though nobody knows whether its profile is there")
			}
			w.account.Heal()
			w.clean()
			if err := w.client.Get(t.Context(), nameOf("general"), c); !apierrors.IsNotFound(err) {
				t.Errorf("the class is still there: %v", err)
			}
			if n := w.profiles(); n != test.left {
				t.Errorf("%d instance profiles are left, want %d", n, test.left)
			}
		})
	}
}
