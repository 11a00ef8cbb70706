package aws_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider"
	"tenon.sh/provider/aws"
	"tenon.sh/provider/aws/awstest"
)

func TestARegionWithoutAnAPIIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	sdk := w.account.Config()
	sdk.Region, sdk.BaseEndpoint = "xx-nowhere-1", awssdk.String("http://127.0.0.1:1") // no server listens there
	p, err := aws.New(t.Context(), aws.Config{ClusterName: awstest.Cluster, EKSControlPlane: true, Client: w.client, Clock: w.clock, SDK: &sdk})
	w.must(err)
	err = p.Check(t.Context())
	if err == nil || !strings.Contains(err.Error(), "reach EC2 in xx-nowhere-1") || !strings.Contains(err.Error(), "AWS_REGION") {
		t.Errorf("got %v", err)
	}
	c := w.class("general", nil)
	if problem, err := p.Resolve(t.Context(), seen(c)); err != nil || problem == "" || v1.IsTrue(c, v1.ConditionReady) {
		t.Errorf("the class: %q, %v", problem, err)
	}
}

// A type may disappear between a plan and the launch: from EC2's answers, from the catalog, or from the region's capacity.
func TestTypesThatVanishBeforeTheLaunch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, untried)
	c := w.resolved("general", nil)
	onDemand := in(v1.CapacityTypeLabelKey, "on-demand")
	m := w.launch(w.claim("some", c, in(corev1.LabelInstanceTypeStable, "m5.large", "no.such"), onDemand), c)
	if m.Labels[corev1.LabelInstanceTypeStable] != "m5.large" {
		t.Errorf("labels %v", m.Labels)
	}
	_, err := w.provider.Launch(t.Context(), w.claim("all", c, in(corev1.LabelInstanceTypeStable, "no.such")), seen(c))
	if launch := (*provider.LaunchError)(nil); !errors.As(err, &launch) || launch.Reason != "InstanceTypeResolutionFailed" || !strings.Contains(err.Error(), "no.such") {
		t.Errorf("a type that is not in the catalog: %v", err)
	}
	w.account.Limit(awstest.Offering{InstanceType: "m5.large"}, 0, "Unsupported")
	m = w.launch(w.claim("unsupported", c, in(corev1.LabelInstanceTypeStable, "m5.large", "m5.xlarge"), onDemand), c)
	if m.Labels[corev1.LabelInstanceTypeStable] != "m5.xlarge" {
		t.Errorf("labels %v", m.Labels)
	}
	if n := len(w.account.Machines()); n != 2 {
		t.Errorf("%d machines", n)
	}
}

// Objects that a class refers to, such as an image or a subnet, may be deleted while machines are started from it.
func TestWhatAClassRefersToVanishesWithTheNextLook(t *testing.T) {
	t.Parallel()
	w := newWorld(t, untried)
	w.account.AddImages(awstest.Image{ID: "ami-0aa", Name: "own", Created: w.clock.Now()})
	c := w.resolved("general", func(c *awsv1.EC2NodeClass) {
		c.Spec.AMISelectorTerms, c.Spec.AMIFamily = []awsv1.AMISelectorTerm{{ID: "ami-0aa"}}, new("AL2023")
	})
	w.account.SetImages(awstest.Image{ID: "ami-0bb", Name: "another", Created: w.clock.Now()})
	w.clock.Step(2 * time.Minute)
	if problem := w.resolve(c); !strings.Contains(problem, "selects no image") || len(c.Status.AMIs) > 0 {
		t.Errorf("problem %q, images %v", problem, c.Status.AMIs)
	}
	_, err := w.provider.Launch(t.Context(), w.claim("a", c), seen(c))
	if notReady := (*provider.ClassNotReadyError)(nil); !errors.As(err, &notReady) || !strings.Contains(err.Error(), "AMIsReady") {
		t.Errorf("launch: %v", err)
	}
}

func TestWithoutAnyPriceMachinesAreStartedAllTheSame(t *testing.T) {
	t.Parallel()
	w := newWorld(t, untried)
	w.account.Fail("pricing:GetProducts", awstest.Fault{Status: 403, Code: "AccessDeniedException"})
	w.account.Fail("ec2:DescribeSpotPriceHistory", awstest.Fault{Status: 403, Code: "UnauthorizedOperation"})
	c := w.resolved("general", nil)
	m := w.launch(w.claim("a", c, in(corev1.LabelInstanceTypeStable, "m5.large")), c)
	if m.ID == "" || len(w.account.Machines()) != 1 {
		t.Errorf("machine %+v", m)
	}
}
