package aws_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/aws"
	"tenon.sh/provider/aws/awstest"
)

func TestAClassThatHasEverythingIsReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.class("default", nil)
	if problem := w.resolve(c); problem != "" {
		t.Fatal(problem)
	}
	for _, condition := range append(c.DependentConditions(), v1.ConditionReady) {
		if !v1.IsTrue(c, condition) {
			t.Errorf("%s: %+v", condition, v1.GetCondition(c, condition))
		}
	}
	s := c.Status
	if len(s.Subnets) != 3 || s.Subnets[0].ID == "" || !strings.HasPrefix(s.Subnets[0].ZoneID, "usw2-az") {
		t.Errorf("subnets %+v", s.Subnets)
	}
	if len(s.SecurityGroups) != 1 || s.SecurityGroups[0] != (awsv1.SecurityGroup{ID: w.group, Name: "nodes"}) {
		t.Errorf("security groups %+v", s.SecurityGroups)
	}
	if len(s.AMIs) != 5 || !strings.HasPrefix(s.InstanceProfile, "demo_") {
		t.Errorf("images %+v, profile %s", s.AMIs, s.InstanceProfile)
	}
	calls := len(w.account.Calls(""))
	if problem := w.resolve(c); problem != "" || len(w.account.Calls("")) != calls {
		t.Errorf("the second time: %q, %d more calls", problem, len(w.account.Calls(""))-calls)
	}
}

func TestWhatAClassLacksIsSaid(t *testing.T) {
	t.Parallel()
	type class = awsv1.EC2NodeClass
	for name, test := range map[string]struct {
		change            func(*class)
		condition, reason string
		says              string
		status            metav1.ConditionStatus
	}{
		"subnets": {func(c *class) { c.Spec.SubnetSelectorTerms[0].Tags = awsv1.Tags{"no": "such"} },
			awsv1.ConditionSubnetsReady, awsv1.ReasonSubnetsNotFound, "spec.subnetSelectorTerms selects no subnet in us-west-2", "False"},
		"security groups": {func(c *class) { c.Spec.SecurityGroupSelectorTerms = []awsv1.SecurityGroupSelectorTerm{{Name: "none"}} },
			awsv1.ConditionSecurityGroupsReady, awsv1.ReasonSecurityGroupsNotFound, "selects no security group", "False"},
		"images": {func(c *class) {
			c.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{ID: "ami-0123456789abcdef0"}}
			c.Spec.AMIFamily = new("AL2023")
		}, awsv1.ConditionAMIsReady, awsv1.ReasonAMINotFound, "selects no image", "False"},
		"a version of an alias": {func(c *class) { c.Spec.AMISelectorTerms[0].Alias = "al2023@v19990101" },
			awsv1.ConditionAMIsReady, awsv1.ReasonAMINotFound, "al2023@v19990101 and Kubernetes 1.34", "False"},
		"an alias": {func(c *class) { c.Spec.AMISelectorTerms[0].Alias = "al2@latest" },
			awsv1.ConditionAMIsReady, awsv1.ReasonUnsupportedAlias, "use al2023", "False"},
		"an alias that older rules let pass": {func(c *class) { c.Spec.AMISelectorTerms[0].Alias = "al2023@a@b" },
			awsv1.ConditionAMIsReady, awsv1.ReasonUnsupportedAlias, "family@version", "False"},
		"a role": {func(c *class) { c.Spec.Role = "nobody" },
			awsv1.ConditionInstanceProfileReady, awsv1.ReasonRoleNotFound, "role nobody does not exist", "False"},
		"a placement group": {func(c *class) { c.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: "racks"} },
			awsv1.ConditionPlacementGroupReady, awsv1.ReasonPlacementGroupNotFound, `Placement group "racks" not found`, "False"},
		"a field of the kubelet": {func(c *class) { c.Spec.Kubelet = kubeletOf(`{"noSuchField":1}`) },
			awsv1.ConditionValidationSucceeded, awsv1.ReasonInvalidKubeletConfiguration, "noSuchField", "False"},
		"an expression": {func(c *class) { c.Spec.Kubelet = kubeletOf(`{"maxPods":"vcpus * 10"}`) },
			awsv1.ConditionValidationSucceeded, awsv1.ReasonKubeletExpressionsDisabled, "maxPods", "False"},
		"a field that the family cannot be given": {func(c *class) {
			c.Spec.AMISelectorTerms[0].Alias = "bottlerocket@latest"
			c.Spec.Kubelet = kubeletOf(`{"podsPerCore":1}`)
		}, awsv1.ConditionValidationSucceeded, awsv1.ReasonUnsupportedKubelet, "podsPerCore", "False"},
		"a tag": {func(c *class) { c.Spec.Tags = map[string]string{"kubernetes.io/cluster/x": "owned"} },
			awsv1.ConditionValidationSucceeded, awsv1.ReasonTagValidationFailed, "kubernetes.io/cluster/x", "False"},
		"user data": {func(c *class) { c.Spec.UserData = new(strings.Repeat("a", 16385)) },
			awsv1.ConditionValidationSucceeded, awsv1.ReasonUserDataTooLarge, "16385 bytes, EC2 takes 16384", "False"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			c := w.class("default", test.change)
			problem := w.resolve(c)
			got := v1.GetCondition(c, test.condition)
			if got.Status != test.status || got.Reason != test.reason || !strings.Contains(got.Message, test.says) {
				t.Errorf("%s is %s, %s: %s", test.condition, got.Status, got.Reason, got.Message)
			}
			if !strings.Contains(problem, test.says) || v1.IsTrue(c, v1.ConditionReady) {
				t.Errorf("problem %q, ready %v", problem, v1.IsTrue(c, v1.ConditionReady))
			}
			if test.condition != awsv1.ConditionValidationSucceeded && test.condition != awsv1.ConditionPlacementGroupReady {
				if v := v1.GetCondition(c, awsv1.ConditionValidationSucceeded); v.Status != "False" || v.Reason != awsv1.ReasonDependenciesNotReady {
					t.Errorf("validation is %+v", v)
				}
			}
		})
	}
}

func kubeletOf(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }

func TestAClassIsReadyAgainOnceWhatItLackedIsThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.class("default", func(c *awsv1.EC2NodeClass) { c.Spec.Role = "later" })
	if problem := w.resolve(c); problem == "" {
		t.Fatal("no problem without a role")
	}
	w.account.NewRole("later")
	w.clock.Step(2 * time.Minute)
	if problem := w.resolve(c); problem != "" || !v1.IsTrue(c, v1.ConditionReady) {
		t.Errorf("problem %q", problem)
	}
}

// The test covers each call of Resolve: without permission, the class names the action and the resource to allow.
func TestAMissingPermissionIsNamed(t *testing.T) {
	t.Parallel()
	for action, test := range map[string]struct{ condition, statement string }{
		"ec2:DescribeSubnets":              {awsv1.ConditionSubnetsReady, "AllowRegionalReadActions"},
		"ec2:DescribeSecurityGroups":       {awsv1.ConditionSecurityGroupsReady, "AllowRegionalReadActions"},
		"ec2:DescribeImages":               {awsv1.ConditionAMIsReady, "AllowRegionalReadActions"},
		"ec2:DescribeCapacityReservations": {awsv1.ConditionCapacityReservationsReady, "AllowRegionalReadActions"},
		"ec2:DescribePlacementGroups":      {awsv1.ConditionPlacementGroupReady, "AllowRegionalReadActions"},
		"ssm:GetParameter":                 {awsv1.ConditionAMIsReady, "AllowSSMReadActions"},
		"iam:GetInstanceProfile":           {awsv1.ConditionInstanceProfileReady, "AllowInstanceProfileReadActions"},
		"iam:CreateInstanceProfile":        {awsv1.ConditionInstanceProfileReady, "AllowScopedInstanceProfileCreationActions"},
		"iam:AddRoleToInstanceProfile":     {awsv1.ConditionInstanceProfileReady, "AllowScopedInstanceProfileActions"},
		"eks:DescribeCluster":              {awsv1.ConditionAMIsReady, "AllowAPIServerEndpointDiscovery"},
	} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			code := "AccessDenied"
			if strings.HasPrefix(action, "ec2:") {
				code = "UnauthorizedOperation"
			}
			w.account.Fail(action, awstest.Fault{Status: 403, Code: code, Message: "You are not authorized."})
			c := w.class("default", func(c *awsv1.EC2NodeClass) {
				c.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: "a"}
				c.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{ID: "cr-1"}}
			})
			problem := w.resolve(c)
			message := v1.GetCondition(c, test.condition).Message
			for _, want := range []string{"allow " + action, test.statement} {
				if !strings.Contains(message, want) || !strings.Contains(problem, want) {
					t.Errorf("%q is not said in %s: %s\nproblem: %s", want, test.condition, message, problem)
				}
			}
			if n := len(w.account.Calls(action)); n > 3 {
				t.Errorf("%d calls, though more do not help", n)
			}
		})
	}
}

func TestTroubleThatPassesLeavesAReadyClassReady(t *testing.T) {
	t.Parallel()
	faults := map[string]awstest.Fault{
		"a server error": {Status: 500, Code: "InternalError"},
		"throttling":     {Status: 503, Code: "RequestLimitExceeded"},
		"no connection":  {Status: -1},
		"no permission":  {Status: 403, Code: "UnauthorizedOperation"},
		"credentials":    {Status: 400, Code: "ExpiredToken", Message: "expired"},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			c := w.resolved("default", nil)
			for _, action := range []string{"ec2:DescribeSubnets", "ec2:DescribeSecurityGroups", "ec2:DescribeImages", "ssm:GetParameter", "iam:GetInstanceProfile", "eks:DescribeCluster"} {
				w.account.Fail(action, fault)
			}
			w.clock.Step(25 * time.Hour)
			if problem := w.resolve(c); problem != "" || !v1.IsTrue(c, v1.ConditionReady) || len(c.Status.AMIs) != 5 || len(c.Status.Subnets) != 3 {
				t.Errorf("problem %q, %d images, %d subnets, %+v", problem, len(c.Status.AMIs), len(c.Status.Subnets), c.Status.Conditions)
			}
			fresh := w.class("fresh", nil)
			problem := w.resolve(fresh)
			if v1.IsTrue(fresh, v1.ConditionReady) || problem == "" {
				t.Error("a class of which nothing is known is ready")
			}
			before := fresh.DeepCopy()
			w.clock.Step(10 * time.Second)
			if w.resolve(fresh); !equality.Semantic.DeepEqual(before.Status, fresh.Status) {
				t.Errorf("the same trouble is another status, and would be written again and again:\n%+v\n%+v", before.Status.Conditions, fresh.Status.Conditions)
			}
			w.account.Heal()
			w.clock.Step(10 * time.Second)
			if problem := w.resolve(fresh); problem != "" {
				t.Errorf("when the trouble is over: %s", problem)
			}
		})
	}
}

func TestWhoCannotBeAuthenticatedIsToldSo(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"ExpiredToken": "credentials have expired",
		"AuthFailure":  "does not accept the controller's credentials",
	} {
		w := newWorld(t, nil)
		w.account.Fail("ec2:DescribeSubnets", awstest.Fault{Status: 401, Code: code})
		if problem := w.resolve(w.class("default", nil)); !strings.Contains(problem, want) {
			t.Errorf("%s: %s", code, problem)
		}
	}
}

func TestAHundredClassesAskOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, untried)
	for i := range 100 {
		w.resolved(fmt.Sprintf("class-%d", i), func(c *awsv1.EC2NodeClass) { c.Spec.InstanceProfile, c.Spec.Role = new("given"), "" })
	}
	for action, most := range map[string]int{"ec2:DescribeSubnets": 1, "ec2:DescribeSecurityGroups": 1, "ec2:DescribeImages": 1, "ssm:GetParameter": 5, "eks:DescribeCluster": 1} {
		if n := len(w.account.Calls(action)); n > most {
			t.Errorf("%d calls of %s, want %d", n, action, most)
		}
	}
}

func TestClaimsStampedByAnotherVersionAreStampedAnewAndDoNotDrift(t *testing.T) {
	t.Parallel()
	claim := func(name, version, hash string, drifted bool) *v1.NodeClaim {
		c := &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{awsv1.HashAnnotationKey: hash, awsv1.HashVersionAnnotationKey: version}}}
		c.Spec.NodeClassRef = &v1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: "default"}
		if drifted {
			c.Status.Conditions = []v1.NodeClaimCondition{{Type: v1.ConditionDrifted, Status: metav1.ConditionTrue, Reason: "AMIDrift"}}
		}
		return c
	}
	other := claim("other", "v6", "123", false)
	other.Spec.NodeClassRef.Name = "other"
	w := newWorld(t, nil, claim("taken-over", "v6", "123", false), claim("drifted", "v5", "456", true), claim("ours", awsv1.HashVersion, "old", false), other)
	c := w.class("default", func(c *awsv1.EC2NodeClass) {
		c.Annotations = map[string]string{awsv1.HashAnnotationKey: "123", awsv1.HashVersionAnnotationKey: "v6"}
	})
	traits, err := w.provider.Traits(t.Context(), seen(c))
	w.must(err)
	if got := traits[0]; got.Key != awsv1.HashAnnotationKey || !strings.Contains(fmt.Sprint(got.Accepts), "123") || strings.Contains(fmt.Sprint(got.Accepts), "old") {
		t.Errorf("before anything is stamped, %v is accepted", got)
	}
	w.resolve(c)
	for name, want := range map[string]string{"taken-over": c.Hash(""), "drifted": "456", "ours": "old", "other": "123"} {
		got := &v1.NodeClaim{}
		w.must(w.client.Get(t.Context(), nameOf(name), got))
		version := awsv1.HashVersion
		if name == "other" {
			version = "v6"
		}
		if a := got.Annotations; a[awsv1.HashAnnotationKey] != want || a[awsv1.HashVersionAnnotationKey] != version {
			t.Errorf("%s: %v, want %s of %s", name, a, want, version)
		}
	}
	stored := &awsv1.EC2NodeClass{}
	w.must(w.client.Get(t.Context(), nameOf("default"), stored))
	if a := stored.Annotations; a[awsv1.HashAnnotationKey] != c.Hash("") || a[awsv1.HashVersionAnnotationKey] != awsv1.HashVersion {
		t.Errorf("the class carries %v", a)
	}
}

func TestTheBundleOfCertificateAuthoritiesIsPartOfTheFingerprint(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *aws.Config) { c.ClusterCABundle = "YnVuZGxl" })
	c := w.resolved("default", nil)
	if got := c.Annotations[awsv1.HashAnnotationKey]; got != c.Hash("YnVuZGxl") || got == c.Hash("") {
		t.Errorf("fingerprint %s", got)
	}
}

func TestSettingsThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	good := newWorld(t, nil)
	sdk := good.account.Config()
	for want, change := range map[string]func(*aws.Config){
		"CLUSTER_NAME":               func(c *aws.Config) { c.ClusterName = "" },
		"VM_MEMORY_OVERHEAD_PERCENT": func(c *aws.Config) { c.MemoryOverhead = new(-0.1) },
		"RESERVED_ENIS":              func(c *aws.Config) { c.ReservedENIs = -1 },
		"AMI_REFRESH_INTERVAL":       func(c *aws.Config) { c.AMIRefresh = time.Second },
		"SUBNET_REFRESH_INTERVAL":    func(c *aws.Config) { c.SubnetRefresh = time.Second },
		"CLUSTER_ENDPOINT":           func(c *aws.Config) { c.ClusterEndpoint = "example.com" },
		"needs a Kubernetes client":  func(c *aws.Config) { c.Client = nil },
		"the API server's version":   func(c *aws.Config) { c.EKSControlPlane = false },
		"AWS_REGION":                 func(c *aws.Config) { s := sdk; s.Region = ""; c.SDK = &s },
	} {
		config := aws.Config{ClusterName: "demo", EKSControlPlane: true, Client: good.client, SDK: &sdk}
		change(&config)
		if _, err := aws.New(t.Context(), config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
